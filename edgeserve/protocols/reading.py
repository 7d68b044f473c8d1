"""Turns for the bytes that clients sent: one turn of the event loop works on few of them.

Every connection with bytes is ready in the same turn of the event loop. Together 200 of them, with 4 KB of tiny chunks
each, would hold all other requests for seconds.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

from edgeserve.clients import client_of

log = logging.getLogger("edgeserve.connections")

READS = 2
"""Reads of one turn. A read may begin a request, whose first step may take as long as the read itself."""
SECONDS = 0.005
"""Time of the processor after which a turn begins no further read. The most hostile read takes 10 ms."""


class Reader(Protocol):
    """A connection. ``peer`` is the client's address without its port."""

    peer: str

    def data_received(self, data: bytes) -> None:
        """Work on bytes."""
        ...

    def stop_reading(self) -> None:
        """Leave further bytes with the system."""
        ...

    def go_on_reading(self) -> None:
        """All bytes so far are worked on."""
        ...

    def is_closing(self) -> bool:
        """Whether nothing is read from the connection any more."""
        ...

    def cut(self) -> None:
        """Close at once."""
        ...


class Reading:
    """The bytes of all connections of one event loop.

    Where a turn has no time left, bytes wait, and their connection reads no more. Clients then take turns, so that one
    with many connections delays the others by one read. ``clock`` counts the loop's own time in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self._clock = clock
        self._waiting: dict[Reader, deque[bytes]] = {}
        self._clients: dict[str, deque[Reader]] = {}
        self._reads, self._spent = 0, 0.0
        self._turn_is_due = False

    def take(self, one: Reader, data: bytes) -> None:
        """Work on bytes that came, now or in a later turn, in the order in which they came."""
        if not self._clients and self._has_time():
            self._work(one, data)
            return
        one.stop_reading()
        if one not in self._waiting:
            self._waiting[one] = deque()
            self._line_up(one)
        self._waiting[one].append(data)

    def forget(self, one: Reader) -> None:
        """Drop the bytes of a connection that is lost."""
        self._waiting.pop(one, None)

    def holds(self, one: Reader) -> bool:
        """Whether bytes of the connection wait for a turn."""
        return one in self._waiting

    def _has_time(self) -> bool:
        return self._reads < READS and self._spent < SECONDS

    def _line_up(self, one: Reader) -> None:
        self._clients.setdefault(client_of(one.peer), deque()).append(one)

    def _work(self, one: Reader, data: bytes) -> None:
        if not self._turn_is_due:
            self._turn_is_due = True
            asyncio.get_running_loop().call_soon(self._turn)
        started = self._clock()
        one.data_received(data)
        self._reads, self._spent = self._reads + 1, self._spent + self._clock() - started

    def _turn(self) -> None:
        """Begin a turn of the event loop with bytes that wait."""
        self._turn_is_due, self._reads, self._spent = False, 0, 0.0
        while self._clients and self._has_time():
            one = self._next()
            if one.is_closing():
                self.forget(one)
            if one not in self._waiting:
                continue
            data = self._waiting[one].popleft()
            try:
                self._work(one, data)
            except Exception:  # an error of one connection must not stop the bytes of all others
                log.exception("bytes of %s could not be worked on; the connection was cut", one.peer)
                one.cut()
            self._settle(one)

    def _next(self) -> Reader:
        """The next connection of the client whose turn it is. The client's others go behind all other clients."""
        client, readers = next(iter(self._clients.items()))
        del self._clients[client]
        one = readers.popleft()
        if readers:
            self._clients[client] = readers
        return one

    def _settle(self, one: Reader) -> None:
        """Let a connection read on, or wait with further bytes."""
        if self._waiting.get(one):
            self._line_up(one)
        elif one in self._waiting:
            del self._waiting[one]
            one.go_on_reading()
