"""The unfinished work of one gate: arriving, then waiting for its turn, then under way."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator

from edgeserve.residency.work import Work


class Queue:
    """``state``, the gate's lock, guards the queue. Every method takes it; the calling thread may hold it already."""

    def __init__(self, state: threading.Condition) -> None:
        self._state = state
        self._open: list[Work] = []
        self._arriving: deque[Work] = deque()
        self._waiting: deque[Work] = deque()

    def __iter__(self) -> Iterator[Work]:
        """All work that has not ended."""
        with self._state:
            return iter(tuple(self._open))

    def waits(self) -> bool:
        """True when work waits for its turn."""
        return bool(self._waiting)

    def add(self, work: Work) -> None:
        with self._state:
            self._open.append(work)
            self._arriving.append(work)

    def arriving(self) -> Work | None:
        """The work to prepare next. The work stays in the queue."""
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
        """Take the work whose turn it is; None when no work waits."""
        with self._state:
            return self._waiting.popleft() if self._waiting else None

    def put_back(self, work: Work) -> None:
        """Make work that was taken the next again."""
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
        """Forget work that has ended. False when it was forgotten before."""
        with self._state:
            if work not in self._open:
                return False
            self._open.remove(work)
            return True
