"""Threads of a context: all of them while the cores are free, fewer beside other programs.

llama.cpp's threads wait for each other after each operation, some hundred times a token. A thread that lost its core to
another program holds up all others, so each thread needs a core of its own.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable

from edgeserve.system import cores
from edgeserve.system.beside import TAKEN, beside
from edgeserve.system.load import Neighbours

log = logging.getLogger("edgeserve.llama")

LOOK_EVERY = 0.25
"""Seconds between two readings of the load. After a pause what no longer runs is left out."""
HOLD = 5.0
"""Seconds for which a core is left to the server's Python threads after they took it. Requests come in bursts, and each
burst that finds all threads at work stops an answer until the load is read."""


class Threads:
    """``look`` before each call of llama.cpp. One thread at a time. ``clock`` in seconds.

    ``single`` and ``batch``: threads of one token and of prompts while the cores are free. ``apply`` takes the numbers
    of now.
    """

    def __init__(
        self,
        single: int,
        batch: int,
        apply: Callable[[int, int], None],
        neighbours: Neighbours | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most = self.now = (single, batch)
        self._apply = apply
        self._neighbours = neighbours or Neighbours()
        self._clock = clock
        self._next = self._held = -math.inf

    def share(self, tokens: int) -> float:
        """Threads of a call now, as a share of the most; 0 for a single one, and where the load stays unknown.

        A call of several tokens has the threads of prompts.
        """
        at = tokens > 1
        return self.now[at] / self._most[at] if self.now[at] > 1 and self._neighbours.known else 0.0

    def give_up(self) -> None:
        """Halve the threads until the next ``look``: a call took so long that others must have a core."""
        single, batch = (max(1, one // 2) for one in self.now)
        self._next = self._clock() + LOOK_EVERY
        self.now = (single, batch)
        self._apply(single, batch)

    def look(self) -> None:
        """Take fewer or more threads if the load of the machine has changed. Reads the load four times a second."""
        now = self._clock()
        if now < self._next or max(self._most) == 1:
            return
        self._next = now + LOOK_EVERY
        others = self._neighbours.read()
        if others is None:
            return
        if min(others, self._neighbours.python) >= TAKEN:
            self._held = now + HOLD
        limits = self.now if now < self._held else self._most
        count = len(cores.allowed())
        single, batch = (beside(others, old, most, count) for old, most in zip(self.now, limits, strict=True))
        if (single, batch) != self.now:
            log.debug("others take %.2f cores: %d threads for a token, %d for prompts", others, single, batch)
            self.now = (single, batch)
            self._apply(single, batch)
