"""One WebSocket, passed on to a node: both directions, and the end of either."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from typing import TYPE_CHECKING

from edgeserve.cluster.asgi import JSON, Receive, Scope, Send, error, target
from edgeserve.cluster.passing import CONNECT_SECONDS, LOST, Lease
from edgeserve.cluster.question import Question
from edgeserve.errors import Busy

if TYPE_CHECKING:
    from websockets.asyncio.client import ClientConnection, connect

GONE, BROKEN, REFUSED = 1001, 1011, 1008
"""Codes of RFC 6455, section 7.4: a side that goes away, an error of the server, a refusal."""
SENT = frozenset((1000, GONE, *range(3000, 5000)))
"""Codes that a client may send; 1005 and 1006 stand for none and for a broken connection."""
LONGEST = 4 << 20
"""Bytes of one message of a node: more than an item of a conversation can have."""
WAITING = 1
"""Messages of a node that wait for the client. The library's own 16 would take 64 MB for each client."""
OWN = frozenset((b"host", b"connection", b"upgrade", b"content-length", b"transfer-encoding"))
"""Headers that the connection to the node has of its own, beside those of the WebSocket."""

log = logging.getLogger("edgeserve.cluster")


async def pass_socket(lease: Lease, question: Question, scope: Scope, receive: Receive, send: Send) -> None:
    """Connect a client's WebSocket with one of a node, until one side ends."""
    from websockets.exceptions import InvalidStatus, WebSocketException

    if (await receive())["type"] != "websocket.connect":
        return
    try:
        async with contextlib.AsyncExitStack() as stack:
            url = await stack.enter_async_context(lease(question))
            try:
                node = await stack.enter_async_context(_connection(url, scope))
            except InvalidStatus as refused:
                response = refused.response
                await refuse(scope, send, response.status_code, bytes(response.body or b""))
                return
            except (WebSocketException, OSError, TimeoutError) as problem:
                log.warning("no WebSocket %s at %s: %r", scope["path"], url, problem)
                await refuse(scope, send, 502, _words("node_lost", LOST))
                return
            await send({"type": "websocket.accept", "subprotocol": node.subprotocol})
            await _join(node, receive, send)
    except Busy as busy:
        await refuse(scope, send, 503, _words(busy.code, busy.message))


async def refuse(scope: Scope, send: Send, status: int, body: bytes) -> None:
    """An answer in place of the WebSocket; where the server cannot send one, its refusal without words."""
    if "websocket.http.response" not in (scope.get("extensions") or {}):
        await send({"type": "websocket.close", "code": REFUSED, "reason": ""})
        return
    headers = [(b"content-type", JSON), (b"content-length", str(len(body)).encode())]
    await send({"type": "websocket.http.response.start", "status": status, "headers": headers})
    await send({"type": "websocket.http.response.body", "body": body})


def _words(code: str, message: str) -> bytes:
    return json.dumps(error(code, message)).encode()


def _connection(url: str, scope: Scope) -> connect:
    """Entering it raises WebSocketException with the node's refusal, OSError and TimeoutError."""
    from websockets.asyncio.client import connect

    headers = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in scope["headers"]
        if name not in OWN and not name.startswith(b"sec-websocket")
    ]
    return connect(
        url.replace("http", "ws", 1) + target(scope).decode("latin-1"),
        additional_headers=headers,
        subprotocols=scope.get("subprotocols") or None,
        user_agent_header=None,
        max_size=LONGEST,
        max_queue=WAITING,
        open_timeout=CONNECT_SECONDS,
        compression=None,
        proxy=None,
    )


async def _join(node: ClientConnection, receive: Receive, send: Send) -> None:
    up, down = asyncio.ensure_future(_up(node, receive)), asyncio.ensure_future(_down(node, send))
    try:
        await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in (up, down):
            one.cancel()
        await asyncio.gather(up, down, return_exceptions=True)


async def _up(node: ClientConnection, receive: Receive) -> None:
    """Messages of the client, until it leaves."""
    while (message := await receive())["type"] == "websocket.receive":
        text = message.get("text")
        await node.send(message["bytes"] if text is None else text)
    code = message.get("code", GONE)
    await node.close(code if code in SENT else GONE)


async def _down(node: ClientConnection, send: Send) -> None:
    """Messages of the node, until it closes the connection; then the client gets its code."""
    from websockets.exceptions import ConnectionClosed

    try:
        while True:
            message = await node.recv()
            kind = "text" if isinstance(message, str) else "bytes"
            await send({"type": "websocket.send", kind: message})
    except ConnectionClosed as closed:
        code, reason = (closed.rcvd.code, closed.rcvd.reason) if closed.rcvd else (BROKEN, LOST)
        with contextlib.suppress(RuntimeError):  # the client has gone, too
            await send({"type": "websocket.close", "code": code, "reason": reason})
