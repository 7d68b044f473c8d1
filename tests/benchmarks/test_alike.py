"""Answers that are equal but for rounding, and those that are not."""

from __future__ import annotations

import io
import math
import struct

import av
import numpy
import pytest
from benchmarks.alike import Speech, Vector, samples
from benchmarks.chaos.asks import tone

WAV = tone(0.5)


def moved(data: bytes, by: int, header: int = 44) -> bytes:
    """The same samples, with a tone beside them that is ``by`` loud."""
    values = struct.unpack(f"<{(len(data) - header) // 2}h", data[header:])
    return data[:header] + struct.pack(
        f"<{len(values)}h", *(one + round(by * math.sin(0.5 * at)) for at, one in enumerate(values))
    )


def mp3(data: bytes) -> bytes:
    out = io.BytesIO()
    with av.open(out, "w", format="mp3") as file:
        stream = file.add_stream("mp3", rate=16_000, layout="mono")
        frame = av.AudioFrame.from_ndarray(
            numpy.frombuffer(data[44:], "<i2")[None].copy(), format="s16p", layout="mono"
        )
        frame.sample_rate = 16_000
        for packet in [*stream.encode(frame), *stream.encode(None)]:
            file.mux(packet)
    return out.getvalue()


@pytest.mark.parametrize("form", [bytes, mp3, lambda data: data[44:]], ids=["wav", "mp3", "samples"])
def test_rounding_is_not_heard(form: object) -> None:
    assert callable(form)
    assert Speech(form(WAV)) == Speech(form(moved(WAV, 20)))
    assert hash(Speech(form(WAV))) == hash(Speech(form(moved(WAV, 20))))


@pytest.mark.parametrize("form", [bytes, mp3, lambda data: data[44:]], ids=["wav", "mp3", "samples"])
def test_other_sound_is_another_answer(form: object) -> None:
    assert callable(form)
    assert Speech(form(WAV)) != Speech(form(moved(WAV, 2000)))
    assert Speech(form(WAV)) != Speech(form(tone(0.4)))


def test_silence_is_not_sound() -> None:
    assert Speech(bytes(32_000)) != Speech(moved(bytes(32_000), 500, 0))
    assert Speech(b"") == Speech(b"")


def test_a_broken_file_is_told() -> None:
    with pytest.raises(ValueError, match="Invalid data"):
        samples(b"RIFF" + bytes(40))


def test_vectors_that_point_the_same_way_are_equal() -> None:
    one = Vector((1.0, 0.0))
    assert one == Vector((math.cos(0.1), math.sin(0.1)))
    assert one != Vector((math.cos(0.5), math.sin(0.5)))
    assert one != Vector((1.0, 0.0, 0.0))
