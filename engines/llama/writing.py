"""A bound on the bytes that are written to a disk: a memory card wears out by them."""

from __future__ import annotations

import time
from collections.abc import Callable

REFILL_SECONDS = 4 * 3600.0


class Allowance:
    """At most ``burst`` bytes at once, and as many again in every ``REFILL_SECONDS``. ``clock`` in seconds."""

    def __init__(self, burst: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._burst = self._left = float(burst)
        self._clock = clock
        self._filled = clock()

    def take(self, size: int) -> bool:
        """Count ``size`` bytes. False when they are too many now; then nothing is counted."""
        now = self._clock()
        self._left = min(self._burst, self._left + (now - self._filled) / REFILL_SECONDS * self._burst)
        self._filled = now
        if size > self._left:
            return False
        self._left -= size
        return True
