"""One HTTP request, passed on to a node: its body, its answer as it comes, and the end of either side."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import json
import logging
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from typing import TYPE_CHECKING, Any

from edgeserve import clients
from edgeserve.api import failures
from edgeserve.api.auth import client_of
from edgeserve.api.bodies import Bodies, Body
from edgeserve.api.json_body import READS, SMALL
from edgeserve.api.limits import Limits
from edgeserve.api.presence import hang_up
from edgeserve.cluster.asgi import Receive, Scope, Send, error, fail, header, knows, target
from edgeserve.cluster.question import Question, read_question
from edgeserve.cluster.reader import without_cookies
from edgeserve.dataclass import dataclass
from edgeserve.errors import EdgeserveError

if TYPE_CHECKING:
    import httpx

LIMITS = Limits()
Lease = Callable[[Question], AbstractAsyncContextManager[str]]
"""A place at a node for one request: its address. Raises Busy where no node takes requests."""

ATTEMPTS = 3
"""Nodes that are tried for one request. Another node is tried only while no byte of an answer has come."""
BEGINNING = 64 << 10
"""Bytes of a body that are read before a node is chosen: a form has its short fields first, or names no model.

JSON is read up to ``max_json_bytes`` where the key is the cluster's: the name of the model may come last. Without the
key, the node refuses the request, or knows a key of its own.
"""
CONNECT_SECONDS = 2.0
BETWEEN_BYTES = 600.0
"""Longest silence of a node within an answer. A load may take minutes."""
HOP_BY_HOP = frozenset(
    (b"connection", b"expect", b"keep-alive", b"proxy-connection", b"te", b"trailer", b"transfer-encoding", b"upgrade")
)
"""Headers of one connection (RFC 9110, section 7.6.1). The door's own server has met what a client expects."""
LOST = "the node was lost while it answered: ask again"

log = logging.getLogger("edgeserve.cluster")


@dataclass(frozen=True, slots=True)
class Beginning:
    """The beginning of a request's body; ``whole`` when nothing follows."""

    data: bytes
    whole: bool


class ClientGone(Exception):
    """The client closed its connection."""


class Stream:
    """A body that passes as it comes. Only its beginning is kept. ``ended`` once the client has sent all of it."""

    def __init__(self, beginning: Beginning, body: Body, receive: Receive) -> None:
        self.ended = asyncio.Event()
        self._beginning, self._body, self._receive = beginning, body, receive

    async def __aiter__(self) -> AsyncIterator[bytes]:
        """Raises ClientGone, RequestTimeout and Busy."""
        yield self._beginning.data
        while not self._body.whole:
            message = await self._body.next(self._receive)
            if message["type"] == "http.disconnect":
                raise ClientGone
            piece = message.get("body", b"")
            yield piece
            self._body.hold(-len(piece))  # the node has taken it
        self.ended.set()

    async def left(self) -> None:
        """Wait until the client leaves, behind the end of its body."""
        await self.ended.wait()
        await _disconnect(self._receive)


Content = bytes | Stream
"""A whole body, which can be sent again, or one that passes as it comes."""


class Passing:
    """Passes requests on, each within a lease. ``key``: the key of the cluster.

    ``limits``: the bounds of bodies, as those of a node (``BodyLimit``): their bytes, all together, and their time.
    """

    def __init__(self, lease: Lease, key: str = "", limits: Limits = LIMITS) -> None:
        self._lease = lease
        self._key = key
        self._json = limits.max_json_bytes
        self._bodies = Bodies(limits.max_body_bytes, limits.body_seconds)
        self._client: httpx.AsyncClient | None = None

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()

    async def pass_on(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request. Raises nothing that a client causes."""
        client = client_of(scope)
        body = self._bodies.open(client)
        hear = functools.partial(body.next, receive)
        clients.current.set(client)  # for whom the rest is read; the server runs each request in a task
        try:
            beginning = await read_beginning(hear, self._most(scope))
            asked = scope["path"], scope["query_string"], header(scope, b"content-type"), beginning.data
            question = read_question(*asked) if len(beginning.data) <= SMALL else await READS.run(read_question, *asked)
            question = dataclasses.replace(question, client=clients.client_of(client.address))
            content = beginning.data if beginning.whole else Stream(beginning, body, receive)
            await self._try(question, scope, content, receive, send)
        except ClientGone:
            return
        except EdgeserveError as error:
            await failures.respond(error, scope["path"])(scope, receive, send)
        finally:
            self._bodies.close(body)

    def _most(self, scope: Scope) -> int:
        """Bytes of the body to read before a node is chosen."""
        json_body = header(scope, b"content-type").partition(";")[0].strip().lower() == "application/json"
        return self._json if json_body and knows(self._key, scope) else BEGINNING

    async def _try(self, question: Question, scope: Scope, content: Content, receive: Receive, send: Send) -> None:
        import httpx

        for left in reversed(range(ATTEMPTS)):
            async with self._lease(question) as url:
                try:
                    answer = await self._ask(url, scope, content, receive)
                except httpx.LocalProtocolError as problem:  # such as two hosts: no node is to blame
                    await fail(send, 400, "invalid_request", f"this request cannot be passed on: {problem}")
                    return
                except httpx.HTTPError as problem:
                    log.warning("%s did not answer %s: %r", url, scope["path"], problem)
                    never_sent = isinstance(problem, httpx.ConnectError | httpx.ConnectTimeout)
                    if left and (isinstance(content, bytes) or never_sent):
                        continue
                    await fail(send, 502, "node_lost", LOST)
                    return
                async with contextlib.aclosing(answer):
                    try:
                        await _forward(answer, receive, send)
                    except httpx.HTTPError:  # it is in the log
                        hang_up(scope)
                return

    async def _ask(self, url: str, scope: Scope, content: Content, receive: Receive) -> httpx.Response:
        """The answer once its headers are there. Raises httpx.HTTPError, and ClientGone when nobody waits for it."""
        import httpx

        from edgeserve.cluster.nodes import Nodes

        if self._client is None:
            timeout = httpx.Timeout(BETWEEN_BYTES, connect=CONNECT_SECONDS)
            limits = httpx.Limits(max_connections=None, max_keepalive_connections=64)
            self._client = without_cookies(httpx.AsyncClient(timeout=timeout, transport=Nodes(limits), trust_env=False))
            # Its own would ask for gzip in the name of clients that cannot unpack it.
            self._client.headers.clear()
        address = httpx.URL(url, raw_path=target(scope))
        headers = [(name, value) for name, value in scope["headers"] if name not in HOP_BY_HOP]
        request = self._client.build_request(scope["method"], address, headers=headers, content=content)
        sent = asyncio.ensure_future(self._client.send(request, stream=True))
        return await _unless_gone(sent, _disconnect(receive) if isinstance(content, bytes) else content.left())


async def read_beginning(hear: Receive, most: int) -> Beginning:
    """The body, to the message with which it has ``most`` bytes. Raises ClientGone, and what ``hear`` raises."""
    data = bytearray()
    while len(data) < most:
        message = await hear()
        if message["type"] == "http.disconnect":
            raise ClientGone
        data += message.get("body", b"")
        if not message.get("more_body", False):
            return Beginning(bytes(data), True)
    return Beginning(bytes(data), False)


async def _unless_gone(sent: asyncio.Future[httpx.Response], left: Coroutine[Any, Any, None]) -> httpx.Response:
    """The answer's beginning. A client that leaves before ends the request at the node. ``left`` waits for that."""
    gone = asyncio.ensure_future(left)
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


async def _forward(answer: httpx.Response, receive: Receive, send: Send) -> None:
    """Send the answer as it comes, until it ends or the client leaves."""
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
            await asyncio.sleep(0)  # hundreds of pieces may be at hand, and neither side would wait
    except httpx.HTTPError as problem:
        log.warning("%s was lost within its answer: %r", answer.url, problem)
        last = _last_words(answer.headers.get("content-type", ""))
        if last is None:
            raise
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
