"""Places for work that one client may hold for long: a limit for all, and half of it for one client."""

from __future__ import annotations

import threading
from collections import Counter

from edgeserve.errors import Busy


class Places:
    """``most`` places, half of them for one client. ``what`` names the work in errors: "answers are encoded".

    Any thread.
    """

    def __init__(self, most: int, what: str) -> None:
        self.most, self.share = most, max(1, most // 2)
        self._what = what
        self._taken: Counter[str] = Counter()
        self._lock = threading.Lock()

    def take(self, client: str, advice: str) -> None:
        """Take a place. Raises Busy, with ``advice`` at its end, when none is left for this client."""
        with self._lock:
            taken, own = self._taken.total(), self._taken[client]
            if taken < self.most and own < self.share:
                self._taken[client] += 1
                return
        text = f"{taken} {self._what} now, {own} of them for you, and the limits are {self.most} and {self.share}"
        raise Busy(f"{text}; {advice}", retry_after=5)

    def give_back(self, client: str) -> None:
        """Undo ``take``."""
        with self._lock:
            self._taken[client] -= 1
            if not self._taken[client]:
                del self._taken[client]
