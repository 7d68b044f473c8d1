"""Bytes of requests in the serving process, which belong to no engine."""

from __future__ import annotations

import contextvars
import threading
from collections.abc import Callable


class Own:
    """Bytes of one request: ``body`` returns those of its body.

    ``pictures``: those of its decoded pictures. ``rests``: those that its answer needs to go on behind a rest.
    """

    def __init__(self, body: Callable[[], int] = lambda: 0) -> None:
        self._body = body
        self.pictures = self.rests = 0

    @property
    def held(self) -> int:
        return self._body() + self.pictures + self.rests


class _NoRequest(Own):
    """Work of the server itself, whose bytes are nobody's own."""

    @property
    def held(self) -> int:
        return 0


own: contextvars.ContextVar[Own] = contextvars.ContextVar("own", default=_NoRequest())  # noqa: B039 - it stays 0
"""The bytes of the request that is served, which stay until its end. Threads of hosts see it, too."""


class Traffic:
    """Any thread.

    ``came``: bytes that have arrived so far. ``gone``: those of them that are free again. ``ease`` has the slowest of
    those that still arrive refused, where they are much of the bytes that are missing; it never waits. ``eased`` is
    called as such bytes are free.
    """

    def __init__(self) -> None:
        self.came = self.gone = 0
        self.ease: Callable[[int], object] = lambda missing: None
        self.eased: Callable[[], object] = lambda: None
        self._lock = threading.RLock()  # a collection may free bytes in the midst of counting some

    def come(self, size: int) -> None:
        with self._lock:
            self.came += size

    def go(self, size: int) -> None:
        with self._lock:
            self.gone += size

    @property
    def held(self) -> int:
        return self.came - self.gone

    def since(self, gone: int) -> int:
        """Bytes that were here at some time since ``gone`` was read."""
        return self.came - gone


class Kept:
    """Bytes that a session keeps from one message to the next, in ``traffic``. One thread counts them."""

    def __init__(self, traffic: Traffic) -> None:
        self._traffic, self.size = traffic, 0

    def count(self, size: int) -> None:
        """Count so many bytes from now on."""
        if size > self.size:
            self._traffic.come(size - self.size)
        else:
            self._traffic.go(self.size - size)
        self.size = size
