"""Sound as engines hear it: float32 little-endian mono at 16 kHz, as bytes. Known to them through messages.py."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Protocol

INPUT_SAMPLE_RATE = 16_000
"""Rate of all audio handed to a speech-to-text engine, in Hz."""

PIECE_SECONDS = 10
"""Of sound, handed over at once."""


class Audio(Protocol):
    """Sound to be read piece by piece, so that an hour of it is never in memory at once. Picklable."""

    @property
    def seconds(self) -> float:
        """Its length, 0 where nobody can tell before it is read."""
        ...

    def pieces(self) -> Iterator[bytes]:
        """Some seconds each, in order: float32 little-endian mono at 16 kHz. From the start each time it is called.
        Raises InvalidRequest where the sound turns out broken or too long."""
        ...


@dataclass(frozen=True, slots=True)
class Pcm:
    """Samples that are in memory already."""

    data: bytes = field(repr=False)

    @property
    def seconds(self) -> float:
        return len(self.data) / 4 / INPUT_SAMPLE_RATE

    def pieces(self) -> Iterator[bytes]:
        step = PIECE_SECONDS * INPUT_SAMPLE_RATE * 4
        for start in range(0, len(self.data), step):
            yield self.data[start : start + step]
