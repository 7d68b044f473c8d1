"""TLS on one connection: from the client's first byte to the end of the handshake, then HTTP on top.

asyncio's TLS gives a protocol its connection when the handshake is over. Until then nobody would count the connection,
and a client that is silent would have it for a minute. So a ``TlsDoor`` holds its place, as any connection does.

Handshakes and changes of keys cost far more than other bytes, and ask for no key of the server. They take turns with
all that others send (``Reading``).
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import json
import logging
from asyncio.sslproto import SSLProtocol
from collections.abc import Callable
from typing import Any, cast

from edgeserve.api import failures
from edgeserve.connections import Connections, Patience
from edgeserve.errors import InvalidRequest
from edgeserve.protocols.bounded import READ_BYTES, CountedTransport
from edgeserve.protocols.reading import Reading
from edgeserve.tls.certificate import Certificate

log = logging.getLogger("edgeserve.connections")

HANDSHAKE = 0x16
"""First byte of a TLS connection: the type of a record with a handshake (RFC 8446, 5.1)."""
BUFFER_BYTES = 32 << 10
"""Encrypted bytes that a connection holds: two records. asyncio's own 256 KB are too many for 512 connections."""
PIECE_BYTES = 8 << 10
"""Encrypted bytes of one read: 300 changes of keys (RFC 8446, 4.6.3), or 6 ms. A handshake takes 0.3 to 5 ms."""
PLAIN = "this port speaks TLS, and the request came without it: write https:// in place of http://"


class TlsTransport(CountedTransport):
    """The transport of a protocol above TLS. ``raw`` carries its encrypted bytes."""

    def __init__(self, transport: Any, raw: Any) -> None:
        super().__init__(transport)
        self._raw = raw

    def get_write_buffer_size(self) -> int:
        """Bytes that wait for the client, encrypted or not."""
        return int(self._transport.get_write_buffer_size() + self._raw.get_write_buffer_size())

    def close(self) -> None:
        """Close, and wait for no word of the client (RFC 8446, 6.1): idle clients read none, and would hold the end up.

        Idempotent, as asyncio's own ``close`` above TLS is not.
        """
        if self._transport.is_closing():
            return
        self._transport.pause_reading()  # asyncio would hand on what came behind the last request
        self._transport.close()
        if not self._transport.get_write_buffer_size():
            self._raw.close()


class TlsDoor(asyncio.BufferedProtocol):
    """A connection until its handshake is over.

    ``make`` makes the protocol of a connection, which gets ``shared`` and Uvicorn's own arguments.
    """

    def __init__(
        self,
        certificate: Certificate,
        make: Callable[..., asyncio.BaseProtocol],
        connections: Connections,
        patience: Patience,
        reading: Reading,
        **settings: Any,
    ) -> None:
        self.peer = ""
        self.transport: Any = None
        self._certificate = certificate
        self._make: Callable[[], asyncio.BaseProtocol] = functools.partial(
            make, connections=connections, patience=patience, reading=reading, **settings
        )
        self._connections, self._patience, self._reading = connections, patience, reading
        self._open = settings["server_state"].connections
        self._since = connections.clock()
        self._refused = False
        self._buffer = bytearray()

    # asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        peer = transport.get_extra_info("peername")
        self.peer = str(peer[0]) if isinstance(peer, tuple) else ""
        if self._connections.admit(self):
            self._open.add(self)
        else:
            self.transport.abort()  # nothing can be said before the handshake

    def get_buffer(self, sizehint: int) -> bytearray:
        self._buffer = bytearray(READ_BYTES)
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        data, self._buffer = bytes(memoryview(self._buffer)[:nbytes]), bytearray()
        self._reading.take(self, data)

    def connection_lost(self, exc: Exception | None) -> None:
        self._reading.forget(self)
        self.leave()

    # The turns of reading call these

    def data_received(self, data: bytes) -> None:
        if self._refused or self.is_closing():
            return
        if data[0] == HANDSHAKE:
            self._begin(data)
        else:
            self._refuse()

    def stop_reading(self) -> None:
        self.transport.pause_reading()

    def go_on_reading(self) -> None:
        self.transport.resume_reading()

    def is_closing(self) -> bool:
        closing: bool = self.transport.is_closing()
        return closing

    def _begin(self, data: bytes) -> None:
        """Let TLS work on the bytes from here on."""
        tls = TlsConnection(
            asyncio.get_running_loop(),
            Handshake(self),
            self._certificate.context,
            None,  # type: ignore[arg-type]  # nobody waits
            server_side=True,
            ssl_handshake_timeout=self._patience.head,  # type: ignore[arg-type]  # the loop takes floats
            ssl_shutdown_timeout=self._patience.write,
        )
        tls.peer, tls.raw, tls.reading, tls.on_lost = self.peer, self.transport, self._reading, self.leave
        self.transport.set_protocol(tls)
        tls.connection_made(self.transport)
        tls.data_received(data)

    def _refuse(self) -> None:
        """Answer a plain request, and close."""
        self._refused, self._since = True, self._connections.clock()
        body = json.dumps(failures.body(InvalidRequest(PLAIN))).encode()
        head = f"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {len(body)}"
        self.transport.write(head.encode() + b"\r\nconnection: close\r\n\r\n" + body)
        with contextlib.suppress(OSError):  # it has left meanwhile
            self.transport.write_eof()

    def open(self, transport: Any) -> None:
        """Hand the connection over to its protocol. ``transport`` is the one above TLS."""
        self.leave()
        transport.set_read_buffer_limits(high=BUFFER_BYTES)
        protocol = self._make()
        transport.set_protocol(protocol)
        protocol.connection_made(cast(asyncio.BaseTransport, TlsTransport(transport, self.transport)))

    def leave(self) -> None:
        """Give the place back. Idempotent."""
        self._connections.remove(self)
        self._open.discard(self)

    # The registry of connections and Uvicorn call these

    def idle(self, now: float) -> tuple[int, float] | None:
        return 0, self._since

    def has_asked(self) -> bool:
        return False

    def check(self, now: float) -> None:
        if now - self._since >= (self._patience.linger if self._refused else self._patience.head):
            log.debug("%s did not complete its handshake of TLS in time: its connection was closed", self.peer)
            self.transport.abort()

    def cut(self) -> None:
        self.transport.abort()

    cut_at_end = shutdown = cut  # the end of the server


class Handshake(asyncio.Protocol):
    """Waits above TLS for the end of the handshake."""

    def __init__(self, door: TlsDoor) -> None:
        self._door = door

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._door.open(transport)


class TlsConnection(SSLProtocol):
    """asyncio's TLS with a small buffer, in turns with all other connections. ``on_lost`` hears of its end.

    It reads nothing from a client that does not read: TLS answers changes of keys, and the answers would pile up.
    """

    max_size = BUFFER_BYTES
    peer: str
    raw: Any
    """The transport below TLS."""
    reading: Reading
    on_lost: Callable[[], object]
    _full = False
    _ssl_buffer_view: memoryview
    _ssl_reading_paused: bool

    def buffer_updated(self, nbytes: int) -> None:
        data = bytes(self._ssl_buffer_view[:nbytes])
        for start in range(0, nbytes, PIECE_BYTES):
            self.reading.take(self, data[start : start + PIECE_BYTES])

    def data_received(self, data: bytes) -> None:
        if self.is_closing():
            return
        self.get_buffer(len(data))[: len(data)] = data
        super().buffer_updated(len(data))

    def stop_reading(self) -> None:
        self.raw.pause_reading()

    def go_on_reading(self) -> None:
        """Read on, unless a buffer is full."""
        if not (self._full or self._ssl_reading_paused or self.is_closing()):
            self.raw.resume_reading()

    def is_closing(self) -> bool:
        closing: bool = self.raw.is_closing()
        return closing

    def cut(self) -> None:
        self.raw.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._full = True
        self.raw.pause_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._full = False
        self.go_on_reading()

    def _control_ssl_reading(self) -> None:
        super()._control_ssl_reading()  # type: ignore[misc]  # asyncio's own
        if self._full:  # asyncio has perhaps just begun to read again
            self.raw.pause_reading()

    def connection_lost(self, exc: BaseException | None) -> None:
        self.reading.forget(self)
        self.on_lost()
        super().connection_lost(exc)
