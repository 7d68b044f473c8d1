"""Answers that are equal but for rounding.

A runtime adds in another order when it computes with another number of threads, or for several requests together.
"""

from __future__ import annotations

import io
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

CLOSE = 0.98
"""Least cosine of two vectors of one text."""
LOUDNESS, STEP = 0.02, 1.0
"""Most difference of two recordings of one text: a share of their loudness, and one step of int16. Loudness and
difference are root mean squares. One sentence of hibari with one thread and with two differs by 0.0008 of its
loudness."""

HEADERS = (b"RIFF", b"ID3", b"\xff\xfb", b"\xff\xf3", b"\xff\xf2")
"""First bytes of WAV and MP3 files; all else is samples."""


@dataclass(frozen=True, slots=True)
class Vector:
    """One vector, equal to any other that points the same way."""

    numbers: tuple[float, ...] = field(repr=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Vector) or len(other.numbers) != len(self.numbers):
            return False
        return sum(one * two for one, two in zip(self.numbers, other.numbers, strict=True)) >= CLOSE

    def __hash__(self) -> int:
        return len(self.numbers)


@dataclass(frozen=True, slots=True)
class Speech:
    """A recording: a file with a header, or int16 samples. It equals any other in which the same is heard."""

    data: bytes = field(repr=False)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Speech):
            return False
        if self.data == other.data:
            return True
        ours, theirs = samples(self.data), samples(other.data)
        if ours.shape != theirs.shape:
            return False
        return bool(loudness(ours - theirs) <= LOUDNESS * max(loudness(ours), loudness(theirs)) + STEP)

    def __hash__(self) -> int:
        return len(samples(self.data))

    def __repr__(self) -> str:
        return f"{len(self.data)} bytes of sound"


def loudness(values: Any) -> float:
    return float((values**2).mean() ** 0.5) if len(values) else 0.0


@lru_cache(maxsize=64)
def samples(data: bytes) -> Any:
    """float32 [n] in steps of int16. Raises ValueError for a broken file."""
    import numpy

    if not data.startswith(HEADERS):
        return numpy.frombuffer(data[: len(data) // 2 * 2], "<i2").astype(numpy.float32)
    import av

    with av.open(io.BytesIO(data)) as file:
        change = av.AudioResampler(format="s16", layout="mono")
        frames = [some for frame in file.decode(audio=0) for some in change.resample(frame)]
    return numpy.concatenate([frame.to_ndarray()[0] for frame in frames]).astype(numpy.float32)
