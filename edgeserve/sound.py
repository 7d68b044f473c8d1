"""Sound for engines: float32 little-endian mono at 16 kHz, as bytes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import field
from typing import Protocol

from edgeserve.dataclass import dataclass

INPUT_SAMPLE_RATE = 16_000
"""Sample rate of all audio for speech-to-text engines, in Hz."""

PIECE_SECONDS = 10
"""Length of one piece of sound."""


class Audio(Protocol):
    """Sound that is read piece by piece, so that memory never holds an hour of it. Picklable."""

    @property
    def seconds(self) -> float:
        """Length of the sound; 0 when it is unknown before the sound is read."""
        ...

    def pieces(self) -> Iterator[bytes]:
        """Pieces of some seconds, in order, from the start at each call. Samples may be beyond 1, or no numbers.

        An empty piece where the next one has not come for a moment: other requests may have their turn.

        Raises InvalidRequest when the sound turns out broken or too long.
        """
        ...


@dataclass(frozen=True, slots=True)
class Pcm:
    """Samples in memory."""

    data: bytes = field(repr=False)

    @property
    def seconds(self) -> float:
        return len(self.data) / 4 / INPUT_SAMPLE_RATE

    def pieces(self) -> Iterator[bytes]:
        step = PIECE_SECONDS * INPUT_SAMPLE_RATE * 4
        for start in range(0, len(self.data), step):
            yield self.data[start : start + step]
