"""Bounds of a connection: small reads, a small write buffer, and a deadline for the client's reading.

HTTP and WebSocket connections share them (``http.py``, ``websocket.py``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import select
import socket
from typing import TYPE_CHECKING, Any

from edgeserve.connections import Connections, Patience
from edgeserve.protocols.reading import Reading

log = logging.getLogger("edgeserve.connections")

READ_BYTES = 4 << 10
"""Bytes of one read where each byte costs work (heads, chunks, frames): 10 ms for the most hostile."""
WIDE_READ_BYTES = 64 << 10
"""Bytes of one read of a body of known length, which costs no parsing."""
WRITE_BYTES = 64 << 10
"""Unsent bytes beyond which a writer waits, in the server's buffer and again in the system's."""
UNREAD_READS = 128
"""Such reads empty a connection of what waits in the system, 8 MB. A client that goes on sending would prolong them."""
STALLED_SECONDS = 5.0
"""Seconds without reading after which a connection gives its place to a new one where places are short."""
EARLY_FRAMES = "bytes came behind the handshake of a WebSocket: wait for the answer before you send (RFC 6455, 4.1)"
HANGUP = getattr(select, "POLLRDHUP", None)
NOTSENT_LOWAT = getattr(socket, "TCP_NOTSENT_LOWAT", None)


class CountedTransport:
    """An asyncio transport that counts written bytes, so that progress shows while more is written."""

    def __init__(self, transport: Any) -> None:
        self._transport = transport
        self._written = 0

    def write(self, data: bytes) -> None:
        if self._transport.is_closing():
            return  # the rest of a burst to a client that has just gone: asyncio would log its writes as warnings
        self._written += len(data)
        self._transport.write(data)

    @property
    def taken(self) -> int:
        """Bytes that the system took from the transport."""
        waiting: int = self.get_write_buffer_size()
        return self._written - waiting

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)


class Writing:
    """Watches whether the client takes the bytes that wait for it."""

    def __init__(self, transport: CountedTransport) -> None:
        self._transport = transport
        self._taken = 0
        self._since: float | None = None

    def stalled_since(self, now: float) -> float | None:
        """Time of the last progress; None where no bytes wait. Progress shows from one call to the next."""
        taken = self._transport.taken
        if not self._transport.get_write_buffer_size():
            self._since = None
        elif self._since is None or taken > self._taken:
            self._since = now
        self._taken = max(taken, self._taken)  # it falls where TLS adds answers of its own
        return self._since


class Bounded(asyncio.BufferedProtocol):
    """One connection. A class lists this base before Uvicorn's protocol."""

    transport: Any
    plain = 0
    """Bytes that come next and cost no parsing, those of a body of known length. One read has nothing behind them."""

    def __init__(
        self, *args: Any, connections: Connections, patience: Patience, reading: Reading, **settings: Any
    ) -> None:
        super().__init__(*args, **settings)
        self.peer = ""
        self.admitted = connections
        self.patience = patience
        self._reading = reading
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

    def get_buffer(self, sizehint: int) -> memoryview:
        self._buffer = bytearray(max(READ_BYTES, min(self.plain, WIDE_READ_BYTES)))
        return memoryview(self._buffer)  # asyncio's TLS writes into slices, which would be copies of a bytearray

    def buffer_updated(self, nbytes: int) -> None:
        data, self._buffer = bytes(memoryview(self._buffer)[:nbytes]), bytearray()  # an idle connection holds none
        self._reading.take(self, data)

    def stop_reading(self) -> None:
        self.transport.pause_reading()

    def go_on_reading(self) -> None:
        """Read on, unless the protocol, which may be another one by now, has enough for the moment."""
        if not self.is_closing() and self.transport.get_protocol().may_read:
            self.transport.resume_reading()

    def is_closing(self) -> bool:
        closing: bool = self.transport.is_closing()
        return closing

    @property
    def may_read(self) -> bool:
        """Whether the protocol takes further bytes."""
        raise NotImplementedError

    def connection_lost(self, exc: Exception | None) -> None:
        self._reading.forget(self)
        super().connection_lost(exc)

    def eof_received(self) -> None:
        """The client sends no more. asyncio closes the connection."""

    if TYPE_CHECKING:

        def data_received(self, data: bytes) -> None: ...

    def has_gone(self) -> bool:
        """Whether the client has gone. A transport whose reading is paused does not notice."""
        return HANGUP is not None and self._polled(HANGUP)

    def has_asked(self) -> bool:
        """Whether bytes have come that may be a request, and that the server has yet to read."""
        return False

    def has_unread(self) -> bool:
        """Whether bytes of the client wait in the system, and it is still there. Those of TLS may wait elsewhere."""
        return self._polled(select.POLLIN) and not self.has_gone()

    def _polled(self, events: int) -> bool:
        link = self.transport.get_extra_info("socket")
        if link is None:
            return False
        poll = select.poll()
        poll.register(link.fileno(), events)
        return bool(poll.poll(0))

    def drop_unread(self) -> None:
        """Read what waits in the system without use, but not all that a client sends meanwhile."""
        link = self.transport.get_extra_info("socket")
        with contextlib.suppress(OSError), socket.socket(fileno=os.dup(link.fileno())) as same:
            for _ in range(UNREAD_READS):
                if not same.recv(WIDE_READ_BYTES, socket.MSG_DONTWAIT):
                    return

    def check_reader(self, now: float) -> None:
        """Cut the connection of a client that takes nothing. Its request ends as if the client had gone."""
        since = self.writing.stalled_since(now)
        if since is not None and now - since >= self.patience.write:
            log.info("%s took nothing of its answer for %g s: the connection was cut", self.peer, self.patience.write)
            self.transport.abort()

    def stalled(self, now: float) -> tuple[int, float] | None:
        since = self.writing.stalled_since(now)
        return (3, since) if since is not None and now - since >= STALLED_SECONDS else None

    def cut(self) -> None:
        self.transport.abort()

    def cut_at_end(self) -> None:
        """Cut a connection that holds the server's end up. Its client may be told so, if no answer has begun."""
        self.cut()

    def shutdown(self) -> None:
        """End with the server. Uvicorn calls this for each connection in turn, so an error would cut all others."""
        if self.transport.is_closing():
            return  # its client does not read: no message can reach it
        try:
            super().shutdown()  # type: ignore[misc]  # of Uvicorn's protocol
        except Exception:
            log.exception("a connection of %s could not be told that the server ends and was cut", self.peer)
            self.cut()
