"""A bound on the bytes that are written to a disk: a memory card wears out by them."""

from __future__ import annotations

import time
from collections.abc import Callable

REFILL_SECONDS = 4 * 3600.0


RESERVE = 1 / 4
"""Part of the bytes that a client leaves to others once it has taken as much itself."""


class Allowance:
    """At most ``burst`` bytes at once, and as many again in every ``REFILL_SECONDS``. ``clock`` in seconds.

    So one client with very many conversations does not end the writing for all.
    """

    def __init__(self, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst = self._left = float(burst)
        self._reserve = burst * RESERVE
        self._clock = clock
        self._filled = clock()
        self._taken: dict[str, float] = {}
        """Bytes that clients took lately. They are forgotten as fast as the reserve fills."""

    def take(self, size: int, client: str = "") -> bool:
        """Count ``size`` bytes. False when they are too many now; then nothing is counted."""
        self._refill()
        taken = self._taken.get(client, 0.0) + size
        if size > self._left or (self._left - size < self._reserve < taken):
            return False
        self._left -= size
        self._taken[client] = taken
        return True

    def give_back(self, size: int, client: str = "") -> None:
        """Undo ``take``: nothing was written."""
        self._left = min(self._burst, self._left + size)
        self._taken[client] = max(0.0, self._taken.get(client, 0.0) - size)

    def spares(self, size: int) -> bool:
        """Whether half of the burst is left after ``size`` bytes. Counts nothing; any thread."""
        filled = self._left + (self._clock() - self._filled) / REFILL_SECONDS * self._burst
        return min(self._burst, filled) - size >= self._burst / 2

    def _refill(self) -> None:
        now = self._clock()
        share = (now - self._filled) / REFILL_SECONDS
        self._filled = now
        self._left = min(self._burst, self._left + share * self._burst)
        self._taken = {one: left for one, taken in self._taken.items() if (left := taken - share * self._reserve) > 0}
