"""One connection to the site of a picture. Reading what a site sends takes the event loop's time, so it is bounded."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl

    import h11

READ = 8 << 10
"""Bytes that are read before others have their turn."""
HEAD = 32 << 10
"""Bytes of an answer's head at most."""
FREE_PIECES, PIECE = 1000, 256
"""Most pieces of a picture: so many, and one more for so many bytes. Each takes 20 µs, however small it is.

A site that sent single bytes held up all other requests for 0.2 s at a time.
"""
INTERIM = 8
"""Most interim answers (100 to 199, RFC 9110, 15.2) before the answer."""


class Refused(ValueError):
    """An address that the server does not fetch, or an answer that it does not read. It becomes an InvalidRequest."""


class Connection:
    """A request is sent; the answer is read event by event. ``connected`` makes it."""

    def __init__(self, reader: asyncio.StreamReader) -> None:
        import h11

        self.http = h11.Connection(h11.CLIENT, max_incomplete_event_size=HEAD)
        self._reader = reader

    async def head(self) -> h11.Response:
        """The head of the answer. Raises Refused, OSError, and h11's RemoteProtocolError."""
        import h11

        for _ in range(INTERIM + 1):
            event = await self._next()
            if isinstance(event, h11.Response):
                return event
            if not isinstance(event, h11.InformationalResponse):
                raise Refused("ended the connection without an answer")
        raise Refused(f"sent more than {INTERIM} interim answers")

    async def body(self) -> AsyncGenerator[bytes, None]:
        """The pieces of the answer's body. Raises as ``head``."""
        import h11

        pieces = size = 0
        while isinstance(event := await self._next(), h11.Data):
            pieces, size = pieces + 1, size + len(event.data)
            if pieces > FREE_PIECES + size // PIECE:
                raise Refused(f"sends the picture in pieces that are too small: {pieces} for {size} bytes")
            yield bytes(event.data)

    async def _next(self) -> Any:
        import h11

        while (event := self.http.next_event()) is h11.NEED_DATA:
            await asyncio.sleep(0)  # the reader may have bytes at hand, and would not wait
            data = await self._reader.read(READ)
            if not data and self.http.their_state is h11.SEND_RESPONSE:
                raise Refused("ended the connection without an answer")
            self.http.receive_data(data)
        return event


@contextlib.asynccontextmanager
async def connected(
    address: str,
    port: int,
    target: bytes,
    headers: list[tuple[bytes, bytes]],
    *,
    tls: ssl.SSLContext | None = None,
    name: str = "",
) -> AsyncGenerator[Connection, None]:
    """A connection on which ``GET target`` was sent. It is closed at once at the end. Raises OSError.

    ``tls``: the certificates to trust, of which the site's must be one for ``name``; None: unencrypted.
    """
    import h11

    reader, writer = await asyncio.open_connection(
        address, port, ssl=tls, server_hostname=name if tls else None, limit=READ
    )
    try:
        connection = Connection(reader)
        parts = h11.Request(method="GET", target=target, headers=headers), h11.EndOfMessage()
        writer.write(b"".join(connection.http.send(part) or b"" for part in parts))
        await writer.drain()
        yield connection
    finally:
        writer.transport.abort()
