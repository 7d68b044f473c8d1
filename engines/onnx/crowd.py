"""Sessions with as many threads as find a core each beside other programs.

A thread that lost its core to another program holds up all others of a session, at each operation. The number of a
session's threads is fixed, so a graph is opened once more for each number that is needed. The weights of prepared
graphs are mapped, and all sessions of a graph share them.

After a pause the thread that runs a session goes to a core which the session's own threads leave free.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable
from typing import Any, Protocol, runtime_checkable

from edgeserve.engines.onnx import session
from edgeserve.system import apart, cores, pages
from edgeserve.system.beside import beside
from edgeserve.system.growth import Growth
from edgeserve.system.load import Neighbours

log = logging.getLogger("edgeserve.onnx")

LOOK_EVERY = 0.25
"""Seconds between two readings of the load. After a pause what no longer runs is left out."""
PAUSE = 0.02
"""Seconds without a run after which a thread goes to its core anew. Between closer runs threads stay where they are."""


class Crowd:
    """The number of threads to compute with now, shared by the sessions of one model. ``clock`` in seconds.

    ``extra``: private bytes of the sessions with fewer threads.
    """

    def __init__(
        self,
        most: int | None = None,
        neighbours: Neighbours | None = None,
        clock: Callable[[], float] = time.monotonic,
        count: int | None = None,
    ) -> None:
        self.most = self.now = most or cores.default_threads(session.MOST_THREADS)
        self._neighbours = neighbours or Neighbours()
        self._clock = clock
        self._count = count or cores.usable()
        self._next = self._last = -math.inf
        self._sessions: list[Sessions] = []
        self.core = apart.own(self.most)
        """The core that the sessions' own threads leave to the thread that runs them; None where there is none."""
        self.extra = 0

    def join(self, sessions: Sessions) -> None:
        self._sessions.append(sessions)

    def shrink(self) -> None:
        """Close the sessions with fewer threads. No run may be under way."""
        for sessions in self._sessions:
            sessions.shrink()
        self.extra = 0

    def threads(self) -> int:
        """Reads the load of the machine four times a second at most."""
        now = self._clock()
        if self.most > 1 and now >= self._next:
            self._next = now + LOOK_EVERY
            others = self._neighbours.read()
            if others is not None:
                self.now = beside(others, self.now, self.most, self._count)
        return self.now

    def leaving(self, busy: int) -> int:
        """Threads beside ``busy`` threads of the model's own that compute, too."""
        return max(1, min(self.threads(), self._count - busy))

    def take_place(self, threads: int, busy: int) -> None:
        """Before a run with so many threads, move this thread to its core. Beside a busy one it goes to another core.

        It stays where it is between runs that follow each other closely, and where other programs are busy.
        """
        now = self._clock()
        last, self._last = self._last, now
        if self.now == self.most > 1 and (busy or (threads > 1 and now - last >= PAUSE)):
            apart.go(self.core, away=busy > 0)


class Sessions:
    """One graph. ``make`` opens it with a number of threads: with all of them now, and with fewer when they are needed.

    ``fixed``: it always has all of them.
    """

    def __init__(self, crowd: Crowd, make: Callable[[int], Any], *, fixed: bool = False) -> None:
        self._crowd, self._make, self._fixed = crowd, make, fixed
        self._opening = threading.Lock()
        self.whole, self._size = self._made(crowd.most)
        """The session with all threads, and its private bytes. One with fewer takes no more."""
        self._open = {crowd.most: self.whole}
        crowd.join(self)

    def now(self, busy: int = 0) -> Any:
        """The session to run now, on this thread. ``busy``: other threads of the model that compute meanwhile.

        Raises EngineFailure where the graph cannot be opened again.
        """
        threads = self._crowd.most if self._fixed else self._crowd.leaving(busy)
        with self._opening:
            if threads not in self._open:
                log.debug("other programs are busy: a session of %d threads is opened", threads)
                self._open[threads], grown = self._made(threads)
                self._crowd.extra += min(grown, self._size)  # more is of a piece that computes meanwhile
            found = self._open[threads]
        self._crowd.take_place(threads, busy)
        return found

    def _made(self, threads: int) -> tuple[Any, int]:
        """A new session, and the private bytes that came as it was opened."""
        growth = Growth(pages.private_bytes_now)
        with apart.kept_from(self._crowd.core):
            made = self._make(threads)
        return made, growth.end().bytes

    def shrink(self) -> None:
        """Close all sessions but the one with all threads."""
        with self._opening:
            self._open = {self._crowd.most: self.whole}


@runtime_checkable
class Crowded(Protocol):
    """A model whose sessions share a crowd."""

    @property
    def crowd(self) -> Crowd: ...


def extra_bytes(model: object) -> int:
    """Private bytes of a model's sessions with fewer threads; 0 for a model that has none."""
    return model.crowd.extra if isinstance(model, Crowded) else 0


def shrink(model: object) -> None:
    """Close these sessions."""
    if isinstance(model, Crowded):
        model.crowd.shrink()
