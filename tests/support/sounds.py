"""Files of sound in every form, encoded by PyAV, so that none lies in the repository."""

from __future__ import annotations

import functools
import struct
from dataclasses import dataclass
from io import BytesIO
from typing import Any

import av
import numpy

RATE = 16_000


@dataclass(frozen=True, slots=True)
class Form:
    """A container and codec by FFmpeg's names; ``rate`` what the codec takes."""

    container: str
    codec: str
    rate: int = 44_100
    lossless: bool = False


FORMS = {
    "wav": Form("wav", "pcm_s16le", lossless=True),
    "wav-u8": Form("wav", "pcm_u8", lossless=False),
    "wav-24": Form("wav", "pcm_s24le", lossless=True),
    "wav-32": Form("wav", "pcm_s32le", lossless=True),
    "wav-float": Form("wav", "pcm_f32le", lossless=True),
    "wav-double": Form("wav", "pcm_f64le", lossless=True),
    "wav-mulaw": Form("wav", "pcm_mulaw"),
    "wav-alaw": Form("wav", "pcm_alaw"),
    "aiff": Form("aiff", "pcm_s16be", lossless=True),
    "caf": Form("caf", "pcm_s16be", lossless=True),
    "flac": Form("flac", "flac", lossless=True),
    "alac": Form("ipod", "alac", lossless=True),
    "mp3": Form("mp3", "libmp3lame"),
    "m4a": Form("ipod", "aac"),
    "aac": Form("adts", "aac"),
    "ogg": Form("ogg", "vorbis"),
    "opus": Form("ogg", "libopus", 48_000),
    "webm": Form("webm", "libopus", 48_000),
    "mkv": Form("matroska", "aac"),
}


@functools.cache
def melody(seconds: float, rate: int = RATE) -> Any:
    """float32 in ±0.5, read-only: a tone that rises from 200 to 2,000 Hz, louder and softer three times a second."""
    times = numpy.arange(int(seconds * rate)) / rate
    pitch = 200 * times + 900 * times**2 / max(seconds, 1e-9)
    loud = 0.3 + 0.2 * numpy.sin(2 * numpy.pi * 3 * times)
    samples = (loud * numpy.sin(2 * numpy.pi * pitch)).astype(numpy.float32)
    samples.flags.writeable = False
    return samples


def encoded(samples: Any, form: Form, *, channels: int = 1, picture: bool = False, **tags: str) -> bytes:
    """float32 samples (n,) at ``form.rate``, the same in each channel, as a file; ``picture`` adds a video stream."""
    key = (samples.tobytes(), samples.dtype.str, form, channels, picture, *sorted(tags.items()))
    if key not in FILES:
        FILES[key] = _encode(samples, form, channels, picture, tags)
    return FILES[key]


FILES: dict[tuple[Any, ...], bytes] = {}
"""The files so far: tests ask for the same ones again and again."""


def _encode(samples: Any, form: Form, channels: int, picture: bool, tags: dict[str, str]) -> bytes:
    out = BytesIO()
    # FFmpeg's own Vorbis encoder is marked experimental, and knows stereo only.
    layout = "stereo" if channels == 2 or form.codec == "vorbis" else "mono"
    with av.open(out, "w", format=form.container) as file:
        file.metadata.update(tags)
        stream = file.add_stream(form.codec, rate=form.rate, layout=layout, options={"strict": "experimental"})
        if picture:
            add_picture(file, len(samples) / form.rate)
        step = form.rate
        for start in range(0, len(samples), step):
            part = samples[start : start + step].astype(numpy.float32)
            frame = av.AudioFrame.from_ndarray(numpy.tile(part, (2 if layout == "stereo" else 1, 1)), "fltp", layout)
            frame.sample_rate, frame.pts = form.rate, start
            file.mux(stream.encode(frame))
        file.mux(stream.encode(None))
    return out.getvalue()


def add_picture(file: Any, seconds: float) -> None:
    """A video stream of grey frames, one a second."""
    stream = file.add_stream("mpeg4", rate=1, width=32, height=32, pix_fmt="yuv420p")
    for index in range(int(seconds) + 1):
        frame = av.VideoFrame.from_ndarray(numpy.full((32, 32, 3), 128, numpy.uint8), "rgb24")
        frame.pts = index
        file.mux(stream.encode(frame))
    file.mux(stream.encode(None))


def wav_file(
    data: bytes, code: int, channels: int, rate: int, bits: int, *, extensible: bool = False, size: int | None = None
) -> bytes:
    """WAV by hand: ``code`` 1 is PCM, 3 float; ``size`` what the header says of the data's bytes."""
    frame = channels * bits // 8
    body = struct.pack("<HHIIHH", 0xFFFE if extensible else code, channels, rate, rate * frame, frame, bits)
    if extensible:
        body += struct.pack("<HHIH", 22, bits, 0, code) + bytes.fromhex("000000001000800000aa00389b71")
    chunks = struct.pack("<4sI", b"fmt ", len(body)) + body + struct.pack("<4sI", b"junk", 3) + b"abc\0"
    chunks += struct.pack("<4sI", b"data", len(data) if size is None else size) + data
    return struct.pack("<4sI4s", b"RIFF", 4 + len(chunks), b"WAVE") + chunks
