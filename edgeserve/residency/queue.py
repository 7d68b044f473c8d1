"""The work of one gate that has not ended: arriving, then waiting for its turn, then under way."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from edgeserve.residency.work import Work


class Queue:
    """``state`` guards it: the gate's own condition. Each method takes it, and it may be held already."""

    def __init__(self, state: threading.Condition) -> None:
        self._state = state
        self._open: list[Work] = []
        self._arriving: deque[Work] = deque()
        self._waiting: deque[Work] = deque()

    def __iter__(self) -> Iterator[Work]:
        """All work that has not ended."""
        with self._state:
            return iter(tuple(self._open))

    def __bool__(self) -> bool:
        return bool(self._open)

    def waits(self) -> bool:
        """Does work wait for its turn?"""
        return bool(self._waiting)

    def add(self, work: Work) -> None:
        with self._state:
            self._open.append(work)
            self._arriving.append(work)

    def arriving(self) -> Work | None:
        """The work to prepare next; it stays where it is."""
        with self._state:
            return self._arriving[0] if self._arriving else None

    def arrive(self, work: Work) -> bool:
        """Let prepared work wait for its turn. False when it was withdrawn meanwhile."""
        with self._state:
            if work not in self._arriving:
                return False
            self._arriving.remove(work)
            self._waiting.append(work)
            return True

    def take(self) -> Work | None:
        """The work whose turn it is."""
        with self._state:
            return self._waiting.popleft() if self._waiting else None

    def put_back(self, work: Work) -> None:
        """Its turn comes again."""
        with self._state:
            self._waiting.appendleft(work)

    def withdraw(self, work: Work) -> bool:
        """Take work out before its turn. False when it is under way or has ended."""
        with self._state:
            for queue in (self._arriving, self._waiting):
                if work in queue:
                    queue.remove(work)
                    return True
            return False

    def end(self, work: Work) -> bool:
        """Forget work. False when that was done before."""
        with self._state:
            if work not in self._open:
                return False
            self._open.remove(work)
            return True
