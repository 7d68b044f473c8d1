"""The pause before a worker that keeps dying is started again."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable

from edgeserve.errors import Restarting

FREE, SPAN, LONGEST = 3, 60.0, 60.0
"""Deaths within so many seconds that cause no pause, and the longest pause: 1, 2, 4 … 60 s."""


class Restarts:
    """Any thread. ``clock`` in seconds."""

    def __init__(self, name: str, clock: Callable[[], float]) -> None:
        self._name = name
        self._clock = clock
        self._lock = threading.Lock()
        self._deaths: deque[float] = deque()
        self._pauses = 0
        self._until = float("-inf")
        self.total = 0
        """Deaths so far."""

    def note(self) -> None:
        """The worker has died."""
        with self._lock:
            now = self._clock()
            self.total += 1
            self._deaths.append(now)
            while self._deaths[0] < now - SPAN:
                self._deaths.popleft()
            if len(self._deaths) < FREE:
                self._pauses = 0
                return
            self._until = now + min(LONGEST, 2.0**self._pauses)
            self._pauses += 1

    def left(self) -> float:
        """Seconds until the worker may be started; 0 when it may be now."""
        with self._lock:
            return max(0.0, self._until - self._clock())

    def check(self) -> None:
        """Raises Restarting while the pause lasts."""
        if (left := self.left()) > 0:
            raise Restarting(
                f"{self._name} has ended {self.total} times without having been asked to, and is started again in "
                f"{left:.0f} s; the server's log has the causes",
                retry_after=max(1.0, round(left)),
            )
