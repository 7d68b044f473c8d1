"""Types of ASGI, and answers of the cluster itself in JSON."""

from __future__ import annotations

import hmac
import json
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from typing import Any
from urllib.parse import quote

from edgeserve.api.auth import keys
from edgeserve.keys.ring import MOST_TOKENS

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

STATUS = "/cluster/status"
"""The route of the cluster itself: the snapshot of all nodes."""
JSON = b"application/json"


async def answer(send: Send, status: int, body: object, headers: tuple[tuple[bytes, bytes], ...] = ()) -> None:
    data = json.dumps(body).encode()
    fixed = [(b"content-type", JSON), (b"content-length", str(len(data)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": [*fixed, *headers]})
    await send({"type": "http.response.body", "body": data})


async def fail(send: Send, status: int, code: str, message: str, retry_after: float | None = None) -> None:
    """An error in the shape of OpenAI's dialect."""
    headers = () if retry_after is None else ((b"retry-after", str(round(max(1.0, retry_after))).encode()),)
    await answer(send, status, error(code, message), headers)


def error(code: str, message: str) -> Mapping[str, object]:
    return {"error": {"message": message, "type": "server_error", "param": None, "code": code}}


def header(scope: Scope, name: bytes) -> str:
    """The first value of a header; empty where there is none."""
    return next((value.decode("latin-1") for key, value in scope["headers"] if key == name), "")


def knows(key: str, scope: Scope) -> bool:
    """Whether the request has the key, or none is asked for."""
    return not key or any(hmac.compare_digest(one, key.encode()) for one in keys(scope)[:MOST_TOKENS])


def target(scope: Scope) -> bytes:
    """Path and query as the client wrote them."""
    path: bytes = scope.get("raw_path") or quote(scope["path"]).encode()
    query: bytes = scope["query_string"]
    return path + (b"?" + query if query else b"")


def is_proper(path: str) -> bool:
    """Whether an address of a node with this path behind it is one of that node, and the path is what it seems.

    ``@host/`` would name another machine, and ``/x/../admin/`` a route of the owner.
    """
    return path.startswith("/") and not {".", ".."}.intersection(path.split("/"))
