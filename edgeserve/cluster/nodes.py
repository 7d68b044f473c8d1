"""Connections to nodes on which few interim answers come before each answer.

The library skips interim answers (100 to 199, RFC 9110, 15.2) for as long as they come. A node that sent nothing else
made each request to the other nodes wait for half a second.
"""

from __future__ import annotations

import re
from typing import Any

import httpcore
import httpx

MOST = 8
"""Interim answers before an answer. A client that asks for one (``Expect``) gets one."""
INTERIM = re.compile(rb"HTTP/\d\.\d 1")
BLANK = re.compile(rb"\n\r?\n")


class Nodes(httpx.AsyncHTTPTransport):
    """The transport of a client that asks nodes, directly and without a proxy."""

    def __init__(self, limits: httpx.Limits) -> None:
        trusted = httpx.create_ssl_context(trust_env=False)
        super().__init__(verify=trusted, trust_env=False)
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=trusted,
            max_connections=limits.max_connections,
            max_keepalive_connections=limits.max_keepalive_connections,
            keepalive_expiry=limits.keepalive_expiry,
            network_backend=_Network(),
        )


class _Network(httpcore.AnyIOBackend):
    async def connect_tcp(self, *given: Any, **named: Any) -> httpcore.AsyncNetworkStream:
        return Watched(await super().connect_tcp(*given, **named))


class Watched(httpcore.AsyncNetworkStream):
    """A connection that counts the interim answers behind each request, and sends none that is answered already."""

    def __init__(self, stream: httpcore.AsyncNetworkStream) -> None:
        self._stream = stream
        self._head: bytearray | None = None
        """The head of an answer, as far as it has come; None behind its end."""
        self._interim = 0

    async def read(self, *given: Any, **named: Any) -> bytes:
        """Raises RemoteProtocolError for too many interim answers."""
        data = await self._stream.read(*given, **named)
        if self._head is not None:
            self._head += data
            self._look(self._head)
        return data

    def _look(self, head: bytearray) -> None:
        while end := BLANK.search(head):
            if not INTERIM.match(head):
                self._head = None
                return
            del head[: end.end()]
            self._interim += 1
            if self._interim > MOST:
                raise httpcore.RemoteProtocolError(f"sent more than {MOST} interim answers")

    async def write(self, *given: Any, **named: Any) -> None:
        """Raises WriteError where the node has answered or closed: the library then reads the answer.

        A node that refuses a slow upload reads on for some seconds. Its reset would take the refusal along.
        """
        if self.get_extra_info("is_readable"):
            raise httpcore.WriteError("the node has answered before the end of the request")
        self._head, self._interim = bytearray(), 0
        await self._stream.write(*given, **named)

    async def aclose(self) -> None:
        await self._stream.aclose()

    async def start_tls(self, *given: Any, **named: Any) -> httpcore.AsyncNetworkStream:
        return Watched(await self._stream.start_tls(*given, **named))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)
