"""CORS: pages that ``cors_origins`` lists may read answers (https://fetch.spec.whatwg.org/#http-cors-protocol).

The browser sends no credentials of its own: the server sets no cookies, and a page sends a key in a header.
"""

from __future__ import annotations

import re

from starlette.datastructures import MutableHeaders
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edgeserve.api.origin import Rules, values

METHODS = "GET, HEAD, POST, PATCH, DELETE"
EXPOSED = "X-Request-Id, Request-Id, Retry-After, X-Edgeserve-Ignored, X-Edgeserve-Loosened"
NAMES = re.compile(r"[A-Za-z0-9_-]+(?:, *[A-Za-z0-9_-]+){0,63}")
REMEMBERED_SECONDS = 600


class Cors:
    """Adds CORS headers to answers. It is the outermost middleware, so that a page can read errors too."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        page = listed(scope, self._rules)

        async def opened(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                headers.add_vary_header("Origin")
                if page:
                    headers["Access-Control-Allow-Origin"] = page
                    headers["Access-Control-Expose-Headers"] = EXPOSED
            await send(message)

        await self._app(scope, receive, opened)


class Preflight:
    """Answers preflight requests. A preflight request carries no key and changes nothing."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asks = scope["type"] == "http" and scope["method"] == "OPTIONS"
        if not asks or not values(scope, b"access-control-request-method") or not listed(scope, self._rules):
            await self._app(scope, receive, send)
            return
        headers = {"Access-Control-Allow-Methods": METHODS, "Access-Control-Max-Age": str(REMEMBERED_SECONDS)}
        wanted = ", ".join(values(scope, b"access-control-request-headers"))
        if NAMES.fullmatch(wanted):
            headers["Access-Control-Allow-Headers"] = wanted
        if values(scope, b"access-control-request-private-network") == ["true"]:
            headers["Access-Control-Allow-Private-Network"] = "true"
        await Response(status_code=204, headers=headers)(scope, receive, send)


def listed(scope: Scope, rules: Rules) -> str | None:
    """The origin of the asking page, if the rules list it."""
    origins = values(scope, b"origin")
    return origins[0] if len(origins) == 1 and rules.lists(origins[0]) else None
