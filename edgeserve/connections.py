"""All open connections: their number, the number of one client, and the choice of one to close for another.

Nothing here is about HTTP. A connection reports how long it has waited for its client; the registry decides the rest.
"""

from __future__ import annotations

import logging
import resource
import time
from collections import Counter
from collections.abc import Callable, Container
from typing import Protocol

from edgeserve.clients import client_of
from edgeserve.dataclass import dataclass
from edgeserve.shares import half

log = logging.getLogger("edgeserve.connections")

DESCRIPTORS = 8192
"""Open files that the process asks the system for. An unused one costs the kernel no memory."""
RESERVED = 192
"""Descriptors for everything but connections: model files, remote pictures, devices, connections just accepted."""
ACCEPTED_AT_ONCE = 16
"""Connections accepted in one turn of the event loop. The next turn counts them and closes surplus ones."""
BACKLOG = 1024
"""Connections that the system queues until the server accepts them."""
LOOK_SECONDS = 1.0
BETWEEN = 1
"""Rank of a connection between two requests. Lower ranks never sent one; higher ranks are within one."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds that a connection may wait for its client.

    Fields:
        head    for a whole request head, from the first byte of the connection or the head
        write   for a reader that takes none of the bytes that wait for it
        linger  for the rest of a body whose answer is out
    """

    head: float = 10.0
    write: float = 60.0
    linger: float = 5.0


class Connection(Protocol):
    """A connection as the registry sees it. ``peer`` is the client's address without its port."""

    peer: str

    def idle(self, now: float) -> tuple[int, float] | None:
        """Rank for closing (0 closes first) and start of the wait; None while the server works for the connection."""
        ...

    def has_asked(self) -> bool:
        """Whether bytes have come that may be a request, and that the server has yet to read."""
        ...

    def check(self, now: float) -> None:
        """Close the connection if it has waited too long."""
        ...

    def cut(self) -> None:
        """Close at once: another connection needs the place."""
        ...


class Connections:
    """All connections of the event loop: at most ``limit``, and half of them for one client.

    A connection that waits for its client gives its place to a new one.
    """

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self.share = half(limit)
        self.clock = clock
        self._open: dict[Connection, str] = {}
        self._clients: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    @property
    def working(self) -> bool:
        """Whether the server works for a connection, or a client has begun a request."""
        now = self.clock()
        waits = (one.idle(now) for one in self._open)
        return any(one is None or one[0] > BETWEEN for one in waits)

    def admit(self, one: Connection) -> bool:
        """Count a new connection, and close an idle one if its place is needed. False: there is no place."""
        client = client_of(one.peer)
        full = self._clients[client] >= self.share
        if (full or len(self._open) >= self.limit) and not self._make_room_for(client, full):
            log.warning("a connection was refused: %d are open, the limits are %d, and %d for one address, and none "
                        "of them is idle", len(self._open), self.limit, self.share)  # fmt: skip
            return False
        self._open[one] = client
        self._clients[client] += 1
        return True

    def replace(self, old: Connection, new: Connection) -> None:
        """Replace a connection's protocol by another one."""
        self._open[new] = self._open.pop(old)

    def remove(self, one: Connection) -> None:
        """Idempotent."""
        client = self._open.pop(one, None)
        if client is not None:
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]

    def look(self) -> None:
        """Close all connections that have waited too long. The server calls this every ``LOOK_SECONDS``."""
        now = self.clock()
        for one in list(self._open):
            try:
                one.check(now)
            except Exception:  # an error of one connection must not stop the deadlines of all others
                log.exception("a connection of %s could not be looked at and was cut", one.peer)
                one.cut()

    def _largest(self) -> str:
        """The client with the most connections; it gives one up first."""
        return self._clients.most_common(1)[0][0]

    def _make_room_for(self, client: str, full: bool) -> bool:
        """Close an idle connection for a new one of ``client``; False when there is none.

        1. The client is at its share: one of its own, but none that has just asked. The new one is told of the refusal;
           a connection that is closed unread is told nothing, and of many that come at once one would be left.
        2. All places are taken: one of the client with the most connections.
        3. That client's connections are all at work: one of any client with more connections than the new one has, and
           only between two requests.
        """
        if full:
            return self._make_room({client}, asked=False)
        own = self._clients[client]
        larger = {one for one, count in self._clients.items() if count > own}
        return self._make_room({self._largest()}) or self._make_room(larger, BETWEEN)

    def _make_room(self, clients: Container[str], last: int | None = None, *, asked: bool = True) -> bool:
        """Close the connection of lowest rank that waits longest.

        ``last``: the highest rank that may be closed. ``asked``: also one that has just asked.
        """
        now = self.clock()
        found: tuple[tuple[int, float], Connection] | None = None
        for one, owner in self._open.items():
            if owner not in clients or (waits := one.idle(now)) is None or (last is not None and waits[0] > last):
                continue
            if (found is None or waits < found[0]) and (asked or not one.has_asked()):  # the last one asks the system
                found = waits, one
                if not waits[0]:
                    break  # the oldest of rank 0: a flood of new connections must not search all each time
        if found is None:
            return False
        one = found[1]
        log.debug("a connection of %s was closed: it was idle, and another needs its place", self._open[one])
        self.remove(one)
        one.cut()
        return True


def raise_descriptors(wanted: int = DESCRIPTORS) -> int:
    """Raise the limit of open files to ``wanted`` where the system allows it; returns the new limit."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (wanted if value == resource.RLIM_INFINITY else value for value in (soft, hard))
    if soft >= wanted:
        return soft
    raised = min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    except (OSError, ValueError) as error:  # macOS refuses values below its own hard limit
        log.info("the limit of open files stays at %d: %s", soft, error)
        return soft
    return raised


def most(wanted: int, descriptors: int) -> int:
    """Connections that this number of descriptors allows, at most ``wanted``."""
    allowed = max(8, descriptors - RESERVED)
    if allowed < wanted:
        log.warning(
            "%d open files are allowed (ulimit -n): %d connections at once, not the %d of max_connections",
            descriptors,
            allowed,
            wanted,
        )
    return min(wanted, allowed)
