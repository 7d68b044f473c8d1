"""Sound of the user that is still to be heard: float32 at 16 kHz, bounded."""

from __future__ import annotations

from edgeserve.messages import INPUT_SAMPLE_RATE

SAMPLE_BYTES = 4
MAX_SECONDS = 120.0
"""Seconds that one session keeps: 7.7 MB."""
SECOND = INPUT_SAMPLE_RATE * SAMPLE_BYTES


class Recorded:
    """Times are seconds from the start of the session's sound."""

    def __init__(self) -> None:
        self._data = bytearray()
        self._dropped = 0

    @property
    def start(self) -> float:
        return self._dropped / SECOND

    @property
    def end(self) -> float:
        return (self._dropped + len(self._data)) / SECOND

    @property
    def seconds(self) -> float:
        return len(self._data) / SECOND

    def add(self, data: bytes) -> None:
        self._data += data

    def drop(self, until: float) -> None:
        """Drop the sound before a time."""
        count = round((until - self.start) * INPUT_SAMPLE_RATE) * SAMPLE_BYTES
        count = max(0, min(count, len(self._data)))
        del self._data[:count]
        self._dropped += count

    def take(self) -> bytes:
        """All that is kept, which is dropped."""
        data = bytes(self._data)
        self.drop(self.end)
        return data

    def look(self) -> bytes:
        """All that is kept."""
        return bytes(self._data)
