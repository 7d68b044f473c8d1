"""A connection's transport with bounds: small reads, a small write buffer, and a reader that must take what is written.

HTTP and WebSockets share it (``protocol.py``, ``socket_protocol.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import select
import socket
from typing import TYPE_CHECKING, Any

from edgeserve.connections import Connections, Patience

log = logging.getLogger("edgeserve.connections")

READ_BYTES = 4 << 10
"""Bytes read at once where each costs work (heads, chunks, frames): the most hostile take 10 ms."""
WIDE_READ_BYTES = 64 << 10
"""The same for a body of known length, which is taken as it is."""
WRITE_BYTES = 64 << 10
"""Unsent bytes beyond which whoever writes waits: in our buffer, and the same again in the system's."""
STALLED_SECONDS = 5.0
"""A reader that takes nothing for this long gives its place to a new connection where places are short."""
HANGUP = getattr(select, "POLLRDHUP", None)
NOTSENT_LOWAT = getattr(socket, "TCP_NOTSENT_LOWAT", None)


class CountedTransport:
    """An asyncio transport that counts what is written, so that progress shows whatever is added meanwhile."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._written = 0

    def write(self, data: bytes) -> None:
        self._written += len(data)
        self._transport.write(data)

    @property
    def taken(self) -> int:
        """Bytes that the system took from us."""
        waiting: int = self._transport.get_write_buffer_size()
        return self._written - waiting

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Writing:
    """How long the reader of a connection has taken nothing of what waits for it."""

    def __init__(self, transport: CountedTransport) -> None:
        self._transport = transport
        self._taken = 0
        self._since: float | None = None

    def stalled_since(self, now: float) -> float | None:
        """None where nothing waits, or something was taken since the last look."""
        taken = self._transport.taken
        if not self._transport.get_write_buffer_size():
            self._since = None
        elif self._since is None or taken != self._taken:
            self._since = now
        self._taken = taken
        return self._since


class Bounded(asyncio.BufferedProtocol):
    """One connection. Whoever inherits this comes before Uvicorn's protocol of the kind."""

    transport: Any
    wide = False
    """Whether what comes now may be read in large pieces."""

    def __init__(self, *args: Any, connections: Connections, patience: Patience, **settings: Any) -> None:
        super().__init__(*args, **settings)
        self.peer = ""
        self.admitted = connections
        self.patience = patience
        self._buffer = bytearray()

    def bound(self, transport: Any) -> CountedTransport:
        """The transport to use from here on."""
        counted = transport if isinstance(transport, CountedTransport) else CountedTransport(transport)
        counted.set_write_buffer_limits(high=WRITE_BYTES)
        link = counted.get_extra_info("socket")
        if NOTSENT_LOWAT is not None and link is not None:
            with contextlib.suppress(OSError):  # no TCP
                link.setsockopt(socket.IPPROTO_TCP, NOTSENT_LOWAT, WRITE_BYTES)
        peer = counted.get_extra_info("peername")
        self.peer = str(peer[0]) if isinstance(peer, tuple) else ""
        self.writing = Writing(counted)
        return counted

    def get_buffer(self, sizehint: int) -> bytearray:
        self._buffer = bytearray(WIDE_READ_BYTES if self.wide else READ_BYTES)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data, self._buffer = bytes(memoryview(self._buffer)[:nbytes]), bytearray()  # an idle connection holds none
        self.data_received(data)

    def eof_received(self) -> None:
        """The client sends no more; asyncio closes the connection."""

    if TYPE_CHECKING:

        def data_received(self, data: bytes) -> None: ...

    def has_gone(self) -> bool:
        """Whether the client has gone, seen without reading; a transport whose reading is paused cannot tell."""
        link = self.transport.get_extra_info("socket")
        if link is None or HANGUP is None:
            return False
        poll = select.poll()
        poll.register(link.fileno(), HANGUP)
        return bool(poll.poll(0))

    def check_reader(self, now: float) -> None:
        """Cut the connection whose reader takes nothing; its request hears that the client has gone."""
        since = self.writing.stalled_since(now)
        if since is not None and now - since >= self.patience.write:
            log.info("%s took nothing of its answer for %g s: the connection was cut", self.peer, self.patience.write)
            self.transport.abort()

    def stalled(self, now: float) -> tuple[int, float] | None:
        since = self.writing.stalled_since(now)
        return (3, since) if since is not None and now - since >= STALLED_SECONDS else None

    def cut(self) -> None:
        self.transport.abort()

    def shutdown(self) -> None:
        """Uvicorn tells each connection in turn that the server ends; one that fails would cut all answers."""
        if self.transport.is_closing():
            return  # its client does not read, and can be told nothing more
        try:
            super().shutdown()  # type: ignore[misc]  # of Uvicorn's protocol
        except Exception:
            log.exception("a connection of %s could not be told that the server ends and was cut", self.peer)
            self.cut()
