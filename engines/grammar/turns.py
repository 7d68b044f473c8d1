"""Turns of answers at following clients' grammars: work in Python, of which several threads do no more than one does.

A crowd of such threads would keep the interpreter from all others. So one works at a time, for some milliseconds, and
the others wait without it.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Iterator


class Turns:
    """A lock that rotates between the threads that want it, in the order in which they came."""

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Lock] = deque()

    @property
    def waiting(self) -> int:
        """Threads that wait for their turn."""
        return len(self._waiting)

    @contextlib.contextmanager
    def one(self) -> Iterator[None]:
        """A turn, as long as nobody else waits; whoever works for longer calls ``pass_on`` now and then."""
        self._take()
        try:
            yield
        finally:
            self._give()

    def pass_on(self) -> None:
        """Let those work who wait, and continue behind them."""
        if self._waiting:
            self._give(then_wait=True)

    def _take(self) -> None:
        with self._guard:
            if not self._taken:
                self._taken = True
                return
            turn = self._line_up()
        turn.acquire()

    def _give(self, *, then_wait: bool = False) -> None:
        with self._guard:
            following = self._waiting.popleft() if self._waiting else None
            if following is None:
                self._taken = then_wait
                return
            own = self._line_up() if then_wait else None
        following.release()
        if own is not None:
            own.acquire()

    def _line_up(self) -> threading.Lock:
        turn = threading.Lock()
        turn.acquire()
        self._waiting.append(turn)
        return turn


TURNS = Turns()
"""The turns of all answers of this process."""
