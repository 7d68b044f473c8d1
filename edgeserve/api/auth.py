"""The optional key: ``Authorization: Bearer <key>`` on every route but the health check."""

from __future__ import annotations

import hmac

from starlette.types import ASGIApp, Receive, Scope, Send

from edgeserve.api import failures
from edgeserve.errors import Unauthorized

OPEN = ("/v1/health",)


class KeyRequired:
    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["path"] not in OPEN:
            scheme, _, given = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
            if not hmac.compare_digest(given.strip(), self._key) or scheme.lower() != b"bearer":
                text = "no key or a wrong one; send Authorization: Bearer <key>"
                await failures.respond(Unauthorized(text))(scope, receive, send)
                return
        await self._app(scope, receive, send)
