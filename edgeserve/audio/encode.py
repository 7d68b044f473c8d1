"""Speech as files, encoded while it is made: int16 mono samples in, bytes of a format out.

WAV and bare samples are written here. FFmpeg makes the other formats, through PyAV, which is imported for the first of
them only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol

from edgeserve.audio.wav import wav_header
from edgeserve.dataclass import dataclass
from edgeserve.errors import EngineFailure, NotSupported
from edgeserve.units import MB

PCM_RATE = 24_000
"""Rate of bare samples in Hz. The format does not state it, so it is always the rate of OpenAI's API."""


class Encoder(Protocol):
    """The encoder of one file."""

    def add(self, pcm: bytes) -> bytes:
        """Bytes that int16 little-endian mono samples add to the file. Samples of an incomplete frame wait.

        Raises EngineFailure, and NotSupported when FFmpeg lacks the codec.
        """
        ...

    def end(self) -> bytes:
        """The last bytes of the file."""
        ...

    def close(self) -> None:
        """End an encoder that ``end`` was not called on. Idempotent."""
        ...


@dataclass(frozen=True, slots=True)
class Form:
    """A format: its media type (RFC 7845 for Opus in Ogg), and a function that makes an encoder for a rate in Hz.

    ``computes``: encoding takes some milliseconds for a second of sound, instead of next to nothing. Bare samples may
    need another rate. ``memory``: bytes of an encoder, measured as twelve are open.
    """

    media_type: str
    encoder: Callable[[int], Encoder]
    computes: bool = True
    memory: int = MB


@dataclass(frozen=True, slots=True)
class Codec:
    """FFmpeg's names of a muxer and an encoder.

    ``bit_rate`` is 0 when it follows from the sound. ``rate`` is the only rate, 0 for any rate of the codec.
    """

    muxer: str
    name: str
    bit_rate: int = 0
    rate: int = 0
    options: Mapping[str, str] = field(default_factory=dict)


class _Here:
    """An encoder in this process, which holds nothing that must be ended."""

    def close(self) -> None:
        """Nothing remains."""


class Wav(_Here):
    """WAV: a header of unknown length, then the samples."""

    def __init__(self, rate: int) -> None:
        self._header = wav_header(rate, None)

    def add(self, pcm: bytes) -> bytes:
        header, self._header = self._header, b""
        return header + pcm

    def end(self) -> bytes:
        return self._header


class Bare(_Here):
    """Bare samples at ``PCM_RATE``."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._resampler: Any = None
        if rate != PCM_RATE:
            with _translated("pcm"):
                import av

                self._resampler = av.AudioResampler(format="s16", layout="mono", rate=PCM_RATE)

    def add(self, pcm: bytes) -> bytes:
        return pcm if self._resampler is None else self._resampled(_frame(pcm, self._rate))

    def end(self) -> bytes:
        return b"" if self._resampler is None else self._resampled(None)

    def _resampled(self, frame: Any) -> bytes:
        with _translated("pcm"):
            frames = self._resampler.resample(frame)
            return b"".join(bytes(one.planes[0])[: 2 * one.samples] for one in frames)


class Encoded(_Here):
    """A file in a format of FFmpeg, written frame by frame."""

    def __init__(self, codec: Codec, rate: int) -> None:
        self._name, self._rate, self._sink = codec.name, rate, _Sink()
        with _translated(codec.name):
            import av

            options = {**codec.options, "flush_packets": "1"}
            file: Any = av.open(self._sink, "w", format=codec.muxer, options=options)
            at = codec.rate or _nearest(rate, av.Codec(codec.name, "w").audio_rates)
            self._file, self._stream = file, file.add_stream(codec.name, rate=at, layout="mono")
            if codec.bit_rate:
                self._stream.bit_rate = codec.bit_rate

    def add(self, pcm: bytes) -> bytes:
        with _translated(self._name):
            self._file.mux(self._stream.encode(_frame(pcm, self._rate)))
        return self._sink.take()

    def end(self) -> bytes:
        with _translated(self._name):
            self._file.mux(self._stream.encode(None))
            self._file.close()
        return self._sink.take()


class _Sink:
    """Bytes of a muxer, until they are taken. The sink cannot seek, so the muxer changes nothing afterwards."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []

    def write(self, data: Any) -> int:
        self._parts.append(bytes(data))
        return len(self._parts[-1])

    def take(self) -> bytes:
        taken = b"".join(self._parts)
        self._parts.clear()
        return taken


def _frame(pcm: bytes, rate: int) -> Any:
    import av

    frame = av.AudioFrame(format="s16", layout="mono", samples=len(pcm) // 2)
    frame.planes[0].update(pcm)
    frame.sample_rate = rate
    return frame


def _nearest(rate: int, known: Iterable[int] | None) -> int:
    """The lowest rate of a codec that keeps all of the sound, else its highest. None: the codec knows all rates."""
    rates = sorted(known or (rate,))
    return next((one for one in rates if one >= rate), rates[-1])


@contextmanager
def _translated(name: str) -> Iterator[None]:
    """Load PyAV, and translate its errors."""
    import av
    from av.codec.codec import UnknownCodecError

    try:
        yield
    except UnknownCodecError as error:
        text = f"the FFmpeg that PyAV was built with has no encoder {name}; ask for wav or pcm"
        raise NotSupported(text, param="response_format") from error
    except av.FFmpegError as error:
        raise EngineFailure(f"{name} failed while encoding: {error}") from error


# No header with the number of frames: the header goes out before they are counted.
MP3 = Codec("mp3", "libmp3lame", 64_000, options={"write_xing": "0", "id3v2_version": "0"})
# Ogg writes a page when it holds 0.1 s (in microseconds), not 1 s.
OPUS = Codec("ogg", "libopus", 32_000, 48_000, {"page_duration": "100000"})

FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "mp3": Form("audio/mpeg", partial(Encoded, MP3)),
        "opus": Form("audio/ogg", partial(Encoded, OPUS)),
        "aac": Form("audio/aac", partial(Encoded, Codec("adts", "aac", 64_000))),
        "flac": Form("audio/flac", partial(Encoded, Codec("flac", "flac")), memory=7 * MB),
        "wav": Form("audio/wav", Wav, computes=False),
        "pcm": Form("audio/pcm", Bare),
    }
)
"""Formats by the names of OpenAI's ``response_format``."""
MEDIA_TYPES = tuple(form.media_type for form in FORMS.values())
"""Media types of the formats, the default's first."""
