"""The pace of one download: whether its source still sends enough."""

from __future__ import annotations

from collections.abc import Callable

WINDOW_SECONDS = 300.0
LEAST_BYTES = 256 << 10
"""Bytes that a source must send within the window: 0.9 KB a second. A telephone's slowest network sends more."""


class Pace:
    """The time since a download last moved by ``LEAST_BYTES``. One thread at a time; ``clock`` in seconds."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self._part: object = None
        self._begin = self._now = 0
        self._since = clock()

    def note(self, part: object, done: int) -> None:
        """``done`` bytes of a part are there. Another part begins anew, as does a part that lost bytes."""
        if part != self._part or done < self._now or done - self._begin >= LEAST_BYTES:
            self._part, self._begin, self._since = part, done, self._clock()
        self._now = done

    @property
    def moved(self) -> int:
        """Bytes since the last time that there were enough."""
        return self._now - self._begin

    @property
    def stalled(self) -> bool:
        """Whether less than ``LEAST_BYTES`` came within the last ``WINDOW_SECONDS``."""
        return self._clock() - self._since >= WINDOW_SECONDS
