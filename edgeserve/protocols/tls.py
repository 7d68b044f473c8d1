"""TLS on one connection: from the client's first byte to the end of the handshake, then HTTP on top.

asyncio's TLS gives a protocol its connection when the handshake is over. Until then nobody would count the connection,
and a client that is silent would have it for a minute. So a ``TlsDoor`` holds its place, as any connection does.
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
from edgeserve.tls.certificate import Certificate

log = logging.getLogger("edgeserve.connections")

HANDSHAKE = 0x16
"""First byte of a TLS connection: the type of a record with a handshake (RFC 8446, 5.1)."""
BUFFER_BYTES = 32 << 10
"""Encrypted bytes that a connection holds: two records. asyncio's own 256 KB are too many for 512 connections."""
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
        **settings: Any,
    ) -> None:
        self.peer = ""
        self.transport: Any = None
        self._certificate = certificate
        self._make: Callable[[], asyncio.BaseProtocol] = functools.partial(
            make, connections=connections, patience=patience, **settings
        )
        self._connections, self._patience = connections, patience
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
        if self._refused or self.transport.is_closing():
            return
        if data[0] == HANDSHAKE:
            self._begin(data)
        else:
            self._refuse()

    def connection_lost(self, exc: Exception | None) -> None:
        self.leave()

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
        tls.on_lost = self.leave
        self.transport.set_protocol(tls)
        tls.connection_made(self.transport)
        tls.get_buffer(len(data))[: len(data)] = data
        tls.buffer_updated(len(data))

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

    def check(self, now: float) -> None:
        if now - self._since >= (self._patience.linger if self._refused else self._patience.head):
            log.debug("%s did not complete its handshake of TLS in time: its connection was closed", self.peer)
            self.transport.abort()

    def cut(self) -> None:
        self.transport.abort()

    def shutdown(self) -> None:
        """End with the server."""
        self.transport.abort()


class Handshake(asyncio.Protocol):
    """Waits above TLS for the end of the handshake."""

    def __init__(self, door: TlsDoor) -> None:
        self._door = door

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._door.open(transport)


class TlsConnection(SSLProtocol):
    """asyncio's TLS with a small buffer. ``on_lost`` is called when the connection is lost."""

    max_size = BUFFER_BYTES
    on_lost: Callable[[], object]

    def connection_lost(self, exc: BaseException | None) -> None:
        self.on_lost()
        super().connection_lost(exc)
