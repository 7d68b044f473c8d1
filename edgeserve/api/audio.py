"""WAV in and out. In: any sample rate, any number of channels, 8 to 32 bit integers, 32 and 64 bit floats."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from edgeserve.api.limits import Limits
from edgeserve.errors import TooLarge, UnsupportedMedia
from edgeserve.messages import INPUT_SAMPLE_RATE

PCM, FLOAT, EXTENSIBLE = 1, 3, 0xFFFE
MAX_CHANNELS, MAX_RATE = 32, 768_000
ZERO_CROSSINGS = 16
"""Of the windowed sinc on each side: some 90 dB of stop band with a Hann window."""


@dataclass(frozen=True, slots=True)
class Format:
    code: int
    channels: int
    rate: int
    bits: int


def decode_wav(data: bytes, limits: Limits, param: str = "audio") -> bytes:
    """WAV file bytes → float32 little-endian mono at 16 kHz. Raises UnsupportedMedia and TooLarge naming ``param``."""
    if not data:
        raise UnsupportedMedia(f"{param} is empty", param=param)
    if data[:4] not in (b"RIFF", b"RF64") or data[8:12] != b"WAVE":
        raise UnsupportedMedia(f"{param} is not a WAV file (it begins with {data[:4]!r}); send WAV", param=param)
    form, samples = _chunks(data, param)
    frames = len(samples) // (form.channels * form.bits // 8)
    if not frames:
        raise UnsupportedMedia(f"{param} is a WAV file without samples", param=param)
    if (seconds := frames / form.rate) > limits.max_audio_seconds:
        text = f"{param} lasts {seconds:.0f} s; the limit is {limits.max_audio_seconds:.0f} s"
        raise TooLarge(text, param=param)
    mono = _mono(samples[: frames * form.channels * form.bits // 8], form)
    return bytes(resample(mono, form.rate, INPUT_SAMPLE_RATE).astype("<f4", copy=False).tobytes())


def _chunks(data: bytes, param: str) -> tuple[Format, bytes]:
    """The format and the samples. A size that a stream could not know (0 or all ones) means: up to the end."""
    form, at = None, 12
    while at + 8 <= len(data):
        name, size = struct.unpack_from("<4sI", data, at)
        at += 8
        if name == b"fmt ":
            form = _format(data[at : at + size], param)
        elif name == b"data":
            if form is None:
                break
            return form, data[at:] if size in (0, 0xFFFFFFFF) else data[at : at + size]
        at += size + size % 2
    raise UnsupportedMedia(f"{param} is a WAV file without {'samples' if form else 'a format'}", param=param)


def _format(chunk: bytes, param: str) -> Format:
    if len(chunk) < 16:
        raise UnsupportedMedia(f"{param} is a WAV file with a damaged format", param=param)
    code, channels, rate, _, _, bits = struct.unpack_from("<HHIIHH", chunk)
    if code == EXTENSIBLE and len(chunk) >= 26:
        code = struct.unpack_from("<H", chunk, 24)[0]
    known = (code == PCM and bits in (8, 16, 24, 32)) or (code == FLOAT and bits in (32, 64))
    if not known or not 1 <= channels <= MAX_CHANNELS or not 1000 <= rate <= MAX_RATE:
        text = f"{param} is WAV of format {code} with {bits} bits, {channels} channels, {rate} Hz, which cannot be read"
        raise UnsupportedMedia(f"{text}; send PCM or float WAV", param=param)
    return Format(code, channels, rate, bits)


def _mono(samples: bytes, form: Format) -> Any:
    """float32 in [-1, 1], channels averaged."""
    import numpy

    values: Any
    if form.code == FLOAT:
        # Clipped before it is narrowed: what float32 cannot hold, and what no sound is, must not reach an engine.
        values = numpy.clip(numpy.nan_to_num(numpy.frombuffer(samples, f"<f{form.bits // 8}")), -1.0, 1.0)
        values = values.astype(numpy.float32, copy=False)
    elif form.bits == 8:
        values = (numpy.frombuffer(samples, numpy.uint8).astype(numpy.float32) - 128.0) / 128.0
    elif form.bits == 24:
        parts = numpy.frombuffer(samples, numpy.uint8).reshape(-1, 3)
        wide = numpy.zeros((len(parts), 4), numpy.uint8)
        wide[:, 1:] = parts
        values = wide.view("<i4").ravel().astype(numpy.float32) / 2**31
    else:
        values = numpy.frombuffer(samples, f"<i{form.bits // 8}").astype(numpy.float32) / 2 ** (form.bits - 1)
    return values.reshape(-1, form.channels).mean(axis=1) if form.channels > 1 else values


def resample(samples: Any, rate: int, to: int) -> Any:
    """Polyphase windowed-sinc resampling of float32 samples (n,), low-passed at the lower of the two Nyquist limits."""
    import numpy

    if rate == to or not len(samples):
        return samples
    divisor = math.gcd(rate, to)
    up, down = to // divisor, rate // divisor
    cutoff = min(1.0, up / down)
    half = math.ceil(ZERO_CROSSINGS / cutoff)
    count = len(samples) * up // down
    padded = numpy.pad(samples, (half, half + down + 1))
    windows = numpy.lib.stride_tricks.sliding_window_view(padded, 2 * half)
    out = numpy.empty(count, numpy.float32)
    for phase in range(min(up, count)):
        whole, part = divmod(phase * down, up)
        distance = numpy.arange(1 - half, half + 1) - part / up
        taper = 0.5 + 0.5 * numpy.cos(numpy.pi * numpy.clip(distance / half, -1, 1))
        kernel = (cutoff * numpy.sinc(cutoff * distance) * taper).astype(numpy.float32)
        target = out[phase::up]
        target[:] = windows[whole + 1 :: down][: len(target)] @ kernel
    return out


def wav_header(rate: int, size: int | None) -> bytes:
    """Header of int16 mono WAV; ``size`` in bytes, None for a stream whose length nobody knows yet."""
    data = 0xFFFFFFFF if size is None else size
    riff = 0xFFFFFFFF if size is None else 36 + size
    return struct.pack(
        "<4sI4s4sIHHIIHH4sI", b"RIFF", riff, b"WAVE", b"fmt ", 16, PCM, 1, rate, 2 * rate, 2, 16, b"data", data
    )


def wav(pieces: Iterable[bytes], rate: int) -> bytes:
    """int16 mono pieces as one WAV file."""
    data = b"".join(pieces)
    return wav_header(rate, len(data)) + data
