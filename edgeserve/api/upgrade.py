"""The answer to a plain request for a WebSocket."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api import failures
from edgeserve.errors import InvalidRequest


def required(advice: str) -> Callable[[Request], Awaitable[Response]]:
    """An endpoint that answers 426 (RFC 9110, 15.5.22). ``advice``: what a client may do instead."""

    async def plain(request: Request) -> Response:
        text = f"{request.url.path} is a WebSocket: connect to it with ws:// or wss:// and a client of WebSockets"
        error = InvalidRequest(f"{text}, or {advice}")
        return JSONResponse(failures.body(error), 426, {"Upgrade": "websocket", "Connection": "Upgrade"})

    return plain
