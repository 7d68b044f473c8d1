"""All open connections: how many there may be, how many of one client, and which is closed for another.

Nothing of HTTP here. A connection says for how long it has waited for its client; the rest is decided by the clock.
"""

from __future__ import annotations

import ipaddress
import logging
import resource
import time
from collections import Counter
from collections.abc import Callable, Container
from dataclasses import dataclass
from typing import Protocol

log = logging.getLogger("edgeserve.connections")

DESCRIPTORS = 8192
"""Open files that the process asks the system for. Each of them costs the kernel memory only once it is used."""
RESERVED = 192
"""Descriptors kept for everything but connections: model files, remote pictures, devices, connections just accepted."""
ACCEPTED_AT_ONCE = 16
"""Connections accepted in one turn of the event loop. They are counted, and surplus ones closed, in the next turn."""
LOOK_SECONDS = 1.0
BETWEEN = 1
"""Rank of a connection between two requests; lower ones never asked, higher ones are within one."""
LOOPBACK = "loopback"
"""All addresses of this machine's own, of which any program on it may take any."""
NETWORK = 64
"""Bits of an IPv6 address that one client holds all of (RFC 6177)."""


@dataclass(frozen=True, slots=True)
class Patience:
    """Seconds that a connection may wait for its client.

    ``head``: for a whole request head, from the connection's or the head's first byte. ``write``: for a reader that
    takes none of the bytes that wait for it. ``linger``: for the rest of a body whose answer is out.
    """

    head: float = 10.0
    write: float = 60.0
    linger: float = 5.0


class Connection(Protocol):
    """A connection as the registry sees it. ``peer`` is the client's address without its port."""

    peer: str

    def idle(self, now: float) -> tuple[int, float] | None:
        """How readily it may be closed (0 first) and since when it waits; None while the server works for it."""
        ...

    def check(self, now: float) -> None:
        """End what has waited too long."""
        ...

    def cut(self) -> None:
        """Close at once: another connection needs the place."""
        ...


class Connections:
    """Belongs to the event loop. At most ``limit`` connections, and half of them for one client.

    Every place stays useful to all: a connection that waits for its client gives it to a new one.
    """

    def __init__(self, limit: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.limit = limit
        self.share = max(1, limit // 2)
        self.clock = clock
        self._open: dict[Connection, str] = {}
        self._clients: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, one: Connection) -> bool:
        """Count a new connection, closing an idle one where its place is needed. False: there is no place."""
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
        """The same connection speaks another protocol from here on."""
        self._open[new] = self._open.pop(old)

    def remove(self, one: Connection) -> None:
        """Idempotent."""
        client = self._open.pop(one, None)
        if client is not None:
            self._clients[client] -= 1
            if not self._clients[client]:
                del self._clients[client]

    def look(self) -> None:
        """End what has waited too long; called each ``LOOK_SECONDS``."""
        now = self.clock()
        for one in list(self._open):
            try:
                one.check(now)
            except Exception:  # of one connection; the deadlines of all others go on
                log.exception("a connection of %s could not be looked at and was cut", one.peer)
                one.cut()

    def _largest(self) -> str:
        """The client that has most connections: it gives one up first."""
        return self._clients.most_common(1)[0][0]

    def _make_room_for(self, client: str, full: bool) -> bool:
        """At the cost of the client itself, or of the largest; where all of that one's are at work, of any that has
        more than the new one, and then only between two requests."""
        if full:
            return self._make_room({client})
        own = self._clients[client]
        larger = {one for one, count in self._clients.items() if count > own}
        return self._make_room({self._largest()}) or self._make_room(larger, BETWEEN)

    def _make_room(self, clients: Container[str], last: int | None = None) -> bool:
        """``last``: the rank up to which connections may be closed."""
        now = self.clock()
        found: tuple[tuple[int, float], Connection] | None = None
        for one, owner in self._open.items():
            if owner not in clients or (waits := one.idle(now)) is None or (last is not None and waits[0] > last):
                continue
            if found is None or waits < found[0]:
                found = waits, one
            if not waits[0]:
                break  # the oldest of those that go first: a flood of them must not cost a search each
        if found is None:
            return False
        one = found[1]
        log.debug("a connection of %s was closed: it was idle, and another needs its place", self._open[one])
        self.remove(one)
        one.cut()
        return True


def client_of(peer: str) -> str:
    """The client that an address stands for. An IPv6 client has a whole network to itself, this machine 127.0.0.0/8."""
    try:
        address = ipaddress.ip_address(peer.partition("%")[0])
    except ValueError:
        return peer
    address = getattr(address, "ipv4_mapped", None) or address
    if address.is_loopback:
        return LOOPBACK
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(ipaddress.ip_network((address, NETWORK), strict=False))


def raise_descriptors(wanted: int = DESCRIPTORS) -> int:
    """Raise the limit of open files to ``wanted`` where the system allows it; returns the limit that holds."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    soft, hard = (wanted if value == resource.RLIM_INFINITY else value for value in (soft, hard))
    if soft >= wanted:
        return soft
    raised = min(wanted, hard)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (raised, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))
    except (OSError, ValueError) as error:  # macOS caps it below the hard limit that it names
        log.info("the limit of open files stays at %d: %s", soft, error)
        return soft
    return raised


def most(wanted: int, descriptors: int) -> int:
    """Connections that so many descriptors allow, at most ``wanted``."""
    allowed = max(8, descriptors - RESERVED)
    if allowed < wanted:
        log.warning(
            "%d open files are allowed (ulimit -n): %d connections at once, not the %d of max_connections",
            descriptors,
            allowed,
            wanted,
        )
    return min(wanted, allowed)
