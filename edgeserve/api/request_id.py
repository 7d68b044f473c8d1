"""Request ids, the access log, and the answer to unforeseen errors.

An id stands in the answer and in every log line of its request. This middleware is the outermost but CORS.
"""

from __future__ import annotations

import logging
import re
import secrets
import time

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edgeserve import logs
from edgeserve.api import failures, notes
from edgeserve.api.anthropic import headers as anthropic

log = logging.getLogger("edgeserve.access")

HEADER = "X-Request-Id"
BEGINNINGS = ("http.response.start", "websocket.accept", "websocket.http.response.start")
ACCEPTED = 101
PATH_CHARS = 200
"""Characters of a path in the log: a flood of requests must not write a flood of text."""
SANE = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


class RequestId:
    """Takes over the client's ``X-Request-Id`` if it is harmless, else makes an id."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        method, path = scope.get("method", "WebSocket"), logs.shortened(scope["path"], PATH_CHARS)
        given = dict(scope["headers"]).get(HEADER.lower().encode(), b"")
        name = given.decode() if SANE.fullmatch(given) else f"req_{secrets.token_hex(8)}"
        token = logs.request_id.set(name)
        started, status = time.perf_counter(), 0

        async def named(message: Message) -> None:
            nonlocal status
            if message["type"] in BEGINNINGS:
                status = message.get("status", ACCEPTED)
                headers = MutableHeaders(scope=message)
                headers[HEADER] = name
                if anthropic.speaks(scope):
                    headers[anthropic.REQUEST_ID] = name
                for note, value in notes.headers(scope):
                    headers[note] = value
            await send(message)

        try:
            await self._app(scope, receive, named)
        except Exception:
            # Here rather than in Starlette's own handler, which stands outside and does not know the id.
            log.exception("%s %s failed in an unforeseen way", method, path)
            if status == ACCEPTED:
                await send({"type": "websocket.close", "code": 1011})
            elif not status:
                await failures.respond(failures.INTERNAL, scope["path"])(scope, receive, named)
        finally:
            milliseconds = 1000 * (time.perf_counter() - started)
            # The path only: a query may carry what does not belong into a log.
            log.info("%s %s %d %.0f ms", method, path, status or 500, milliseconds)
            logs.request_id.reset(token)
