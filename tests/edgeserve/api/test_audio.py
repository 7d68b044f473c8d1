"""WAV in every form that is read, and the resampler."""

from __future__ import annotations

import struct
from typing import Any

import numpy
import pytest

from edgeserve.api import audio
from edgeserve.api.limits import Limits
from edgeserve.errors import TooLarge, UnsupportedMedia
from edgeserve.messages import INPUT_SAMPLE_RATE

LIMITS = Limits()


def build(
    data: bytes, code: int, channels: int, rate: int, bits: int, *, extensible: bool = False, size: int = -1
) -> bytes:
    frame = channels * bits // 8
    body = struct.pack("<HHIIHH", 0xFFFE if extensible else code, channels, rate, rate * frame, frame, bits)
    if extensible:
        body += struct.pack("<HHIH", 22, bits, 0, code) + bytes(14)
    chunks = struct.pack("<4sI", b"fmt ", len(body)) + body + struct.pack("<4sI", b"LIST", 3) + b"abc\0"
    chunks += struct.pack("<4sI", b"data", len(data) if size < 0 else size) + data
    return struct.pack("<4sI4s", b"RIFF", 4 + len(chunks), b"WAVE") + chunks


def read(data: bytes) -> Any:
    return numpy.frombuffer(audio.decode_wav(data, LIMITS), "<f4")


TONE = numpy.sin(2 * numpy.pi * 440 * numpy.arange(16_000) / 16_000) * 0.5


@pytest.mark.parametrize(
    ("code", "bits", "raw"),
    [
        (1, 8, lambda x: (x * 127 + 128).astype(numpy.uint8)),
        (1, 16, lambda x: (x * 32767).astype("<i2")),
        (1, 24, lambda x: (x * (2**31 - 1)).astype("<i4").view(numpy.uint8).reshape(-1, 4)[:, 1:]),
        (1, 32, lambda x: (x * (2**31 - 1)).astype("<i4")),
        (3, 32, lambda x: x.astype("<f4")),
        (3, 64, lambda x: x.astype("<f8")),
    ],
)
@pytest.mark.parametrize("extensible", [False, True])
def test_every_depth_is_read(code: int, bits: int, raw: Any, extensible: bool) -> None:
    data = build(numpy.ascontiguousarray(raw(TONE)).tobytes(), code, 1, 16_000, bits, extensible=extensible)
    assert read(data) == pytest.approx(TONE, abs=0.02 if bits == 8 else 1e-4)


def test_channels_are_averaged() -> None:
    both = numpy.stack([TONE, -TONE], axis=1).astype("<f4")
    assert numpy.abs(read(build(both.tobytes(), 3, 2, 16_000, 32))).max() < 1e-6


@pytest.mark.parametrize("size", [0, 0xFFFFFFFF])
def test_a_stream_of_unknown_length_is_read_to_its_end(size: int) -> None:
    assert len(read(build(TONE.astype("<f4").tobytes(), 3, 1, 16_000, 32, size=size))) == 16_000


@pytest.mark.parametrize("rate", [8000, 11_025, 22_050, 24_000, 44_100, 48_000])
def test_a_tone_keeps_its_pitch_and_strength(rate: int) -> None:
    tone = numpy.sin(2 * numpy.pi * 440 * numpy.arange(rate) / rate).astype("<f4")
    out = read(build(tone.tobytes(), 3, 1, rate, 32))
    assert abs(len(out) - INPUT_SAMPLE_RATE) <= 1
    wanted = numpy.sin(2 * numpy.pi * 440 * numpy.arange(len(out)) / INPUT_SAMPLE_RATE)
    assert numpy.abs(out - wanted)[200:-200].max() < 0.01


def test_what_16_khz_cannot_hold_is_filtered_out() -> None:
    tone = numpy.sin(2 * numpy.pi * 12_000 * numpy.arange(48_000) / 48_000).astype("<f4")
    assert numpy.abs(read(build(tone.tobytes(), 3, 1, 48_000, 32)))[200:-200].max() < 0.01


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (build(b"", 2, 1, 16_000, 4), "format 2 with 4 bits"),
        (build(b"", 1, 0, 16_000, 16), "0 channels"),
        (build(b"", 1, 1, 0, 16), "0 Hz"),
        (b"OggS" + bytes(40), "send WAV"),
    ],
)
def test_other_forms_are_named(data: bytes, told: str) -> None:
    with pytest.raises(UnsupportedMedia, match=told):
        read(data)


def test_a_header_without_samples_is_empty() -> None:
    with pytest.raises(UnsupportedMedia, match="without samples"):
        read(audio.wav([], 16_000))


def test_floats_that_are_no_sound_are_brought_into_range() -> None:
    wild = numpy.array([1e300, -1e300, numpy.inf, -numpy.inf, numpy.nan, 0.25])
    assert read(build(wild.tobytes(), 3, 1, 16_000, 64)).tolist() == [1, -1, 1, -1, 0, 0.25]


def test_too_long_audio_is_refused() -> None:
    with pytest.raises(TooLarge, match="lasts 2 s; the limit is 1 s"):
        audio.decode_wav(build(bytes(64_000), 1, 1, 16_000, 16), Limits(max_audio_seconds=1))


def test_a_written_wav_is_read_back() -> None:
    data = audio.wav([(TONE * 32767).astype("<i2").tobytes()], 16_000)
    assert read(data) == pytest.approx(TONE, abs=1e-4)
