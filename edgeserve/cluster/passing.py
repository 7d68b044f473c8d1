"""One HTTP request, passed on to a node: its body, its answer as it comes, and the end of either side."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from edgeserve.cluster.asgi import Receive, Scope, Send, error, fail, header, target
from edgeserve.cluster.question import Question, read_question
from edgeserve.errors import Busy

if TYPE_CHECKING:
    import httpx

Lease = Callable[[Question], AbstractAsyncContextManager[str]]
"""A place at a node for one request: its address. Raises Busy where no node takes requests."""

ATTEMPTS = 3
"""Nodes that are tried for one request. Another node is tried only while no byte of an answer has come."""
WHOLE_JSON = 32 << 20
"""Bytes of JSON that are read before a node is chosen: the name of the model may come last."""
BEGINNING = 64 << 10
"""The same of other bodies, such as sound: a form has its short fields first, or names no model."""
CONNECT_SECONDS = 2.0
BETWEEN_BYTES = 600.0
"""Longest silence of a node within an answer. A load may take minutes."""
HOP_BY_HOP = frozenset(
    (b"connection", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade")
)
"""Headers of one connection (RFC 9110, section 7.6.1)."""
LOST = "the node was lost while it answered: ask again"

log = logging.getLogger("edgeserve.cluster")


@dataclass(frozen=True, slots=True)
class Body:
    """The beginning of a request's body; ``whole`` when nothing follows."""

    data: bytes
    whole: bool


class ClientGone(Exception):
    """The client closed its connection."""


class Passing:
    """Passes requests on, each within a lease."""

    def __init__(self, lease: Lease) -> None:
        self._lease = lease
        self._client: httpx.AsyncClient | None = None

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Raises nothing that a client causes."""
        try:
            body = await read_beginning(scope, receive)
            question = read_question(scope["path"], scope["query_string"], header(scope, b"content-type"), body.data)
            await self._try(question, scope, body, receive, send)
        except ClientGone:
            return
        except Busy as busy:
            await fail(send, 503, busy.code, busy.message, busy.retry_after)

    async def _try(self, question: Question, scope: Scope, body: Body, receive: Receive, send: Send) -> None:
        import httpx

        for left in reversed(range(ATTEMPTS)):
            async with self._lease(question) as url:
                try:
                    answer = await self._ask(url, scope, body, receive)
                except httpx.HTTPError as problem:
                    log.warning("%s did not answer %s: %r", url, scope["path"], problem)
                    never_sent = isinstance(problem, httpx.ConnectError | httpx.ConnectTimeout)
                    if left and (body.whole or never_sent):
                        continue
                    await fail(send, 502, "node_lost", LOST)
                    return
                async with contextlib.aclosing(answer):
                    await _forward(answer, body, receive, send)
                return

    async def _ask(self, url: str, scope: Scope, body: Body, receive: Receive) -> httpx.Response:
        """The answer once its headers are there. Raises httpx.HTTPError, and ClientGone when nobody waits for it."""
        import httpx

        if self._client is None:
            timeout = httpx.Timeout(BETWEEN_BYTES, connect=CONNECT_SECONDS)
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
            self._client = httpx.AsyncClient(timeout=timeout, limits=limits, trust_env=False)
            # Its own would ask for gzip in the name of clients that cannot unpack it.
            self._client.headers.clear()
        address = httpx.URL(url, raw_path=target(scope))
        headers = [(name, value) for name, value in scope["headers"] if name not in HOP_BY_HOP]
        content = body.data if body.whole else _rest(body, receive)
        request = self._client.build_request(scope["method"], address, headers=headers, content=content)
        sent = asyncio.ensure_future(self._client.send(request, stream=True))
        if not body.whole:
            return await sent
        return await _unless_gone(sent, receive)


async def read_beginning(scope: Scope, receive: Receive) -> Body:
    """The body as far as the choice of a node needs it. Raises ClientGone."""
    json_body = header(scope, b"content-type").partition(";")[0].strip().lower() == "application/json"
    most = WHOLE_JSON if json_body else BEGINNING
    data = bytearray()
    while len(data) < most:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        data += message.get("body", b"")
        if not message.get("more_body", False):
            return Body(bytes(data), True)
    return Body(bytes(data), False)


async def _rest(body: Body, receive: Receive) -> AsyncIterator[bytes]:
    yield body.data
    more = True
    while more:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientGone
        yield message.get("body", b"")
        more = message.get("more_body", False)


async def _unless_gone(sent: asyncio.Future[httpx.Response], receive: Receive) -> httpx.Response:
    """The answer's beginning. A client that goes first ends the request at the node."""
    gone = asyncio.ensure_future(_disconnect(receive))
    try:
        await asyncio.wait((sent, gone), return_when=asyncio.FIRST_COMPLETED)
        if not sent.done():
            raise ClientGone
        return sent.result()
    finally:
        for one in (sent, gone):
            one.cancel()
        await asyncio.gather(sent, gone, return_exceptions=True)


async def _disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _forward(answer: httpx.Response, body: Body, receive: Receive, send: Send) -> None:
    """Send the answer as it comes, until it ends or the client goes."""
    headers = [(name.lower(), value) for name, value in answer.headers.raw]
    kept = [(name, value) for name, value in headers if name not in HOP_BY_HOP]
    await send({"type": "http.response.start", "status": answer.status_code, "headers": kept})
    gone = asyncio.ensure_future(_disconnect(receive))
    pieces = asyncio.ensure_future(_pieces(answer, send))
    try:
        await asyncio.wait((gone, pieces), return_when=asyncio.FIRST_COMPLETED)
        if pieces.done():
            await pieces
    finally:
        for one in (gone, pieces):
            one.cancel()
        await asyncio.gather(gone, pieces, return_exceptions=True)


async def _pieces(answer: httpx.Response, send: Send) -> None:
    import httpx

    try:
        async for piece in answer.aiter_raw():
            await send({"type": "http.response.body", "body": piece, "more_body": True})
    except httpx.HTTPError as problem:
        log.warning("%s was lost within its answer: %r", answer.url, problem)
        last = _last_words(answer.headers.get("content-type", ""))
        if last is None:
            raise  # the connection to the client breaks, so that a part is not taken for the whole
        await send({"type": "http.response.body", "body": last, "more_body": True})
    await send({"type": "http.response.body", "body": b""})


def _last_words(media: str) -> bytes | None:
    """The end of a stream of events that its node cannot send any more; None where the form has no place for it."""
    words = json.dumps(error("node_lost", LOST))
    if media.startswith("text/event-stream"):
        return f"\n\ndata: {words}\n\n".encode()
    if media.startswith("application/x-ndjson"):
        return json.dumps({"error": LOST}).join(("\n", "\n")).encode()
    return None
