"""Request ids, the access log, and the answer to unforeseen errors.

An id stands in the answer and in every log line of its request. This middleware is the outermost but CORS.
"""

from __future__ import annotations

import contextlib
import logging
import re
import secrets
import time
from collections.abc import Iterator
from dataclasses import field
from typing import Any

from starlette.datastructures import MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from edgeserve import logs
from edgeserve.api import failures, notes
from edgeserve.api.anthropic import headers as anthropic
from edgeserve.dataclass import dataclass
from edgeserve.figures import account as accounts
from edgeserve.figures import trace
from edgeserve.figures.account import Account
from edgeserve.figures.figures import Figures
from edgeserve.figures.spans import Attributes, NoTraces, Traces

log = logging.getLogger("edgeserve.access")

HEADER = "X-Request-Id"
BEGINNINGS = ("http.response.start", "websocket.accept", "websocket.http.response.start")
ACCEPTED, REFUSED = 101, 403
"""Statuses of a WebSocket. The server answers 403 to one that closes before it has been accepted, as ASGI says."""
METHOD_CHARS, PATH_CHARS = 24, 120
"""Characters of a method and a path in the log: a flood of requests must not write a flood of text.

JSON has both twice. The longest registered method has 17 characters (UPDATEREDIRECTREF).
"""
SANE = re.compile(rb"[A-Za-z0-9._:-]{1,128}")


@dataclass(slots=True, eq=False)
class Asked:
    """One request: ``name`` is its id. ``status``: of the answer that has begun; 0 before."""

    name: str
    method: str
    path: str
    account: Account
    status: int = 0
    started: float = field(default_factory=time.perf_counter)

    @classmethod
    def of(cls, scope: Scope, traces: Traces) -> Asked:
        method = logs.shortened(scope.get("method", "WebSocket"), METHOD_CHARS)
        path = logs.shortened(scope["path"], PATH_CHARS)
        given = dict(scope["headers"]).get(HEADER.lower().encode(), b"")
        name = given.decode() if SANE.fullmatch(given) else f"req_{secrets.token_hex(8)}"
        above = trace.read(scope["headers"])
        span = traces.begin(method, above)
        return cls(name, method, path, Account(span.trace if span else above and above.below(), span))

    @contextlib.contextmanager
    def served(self) -> Iterator[None]:
        """Name the request for all code that serves it."""
        tokens = logs.request_id.set(self.name), logs.about.set(self.account.about), accounts.current.set(self.account)
        try:
            yield
        finally:
            logs.request_id.reset(tokens[0])
            logs.about.reset(tokens[1])
            accounts.current.reset(tokens[2])

    def mark(self, message: Message, scope: Scope) -> None:
        """Take the status from the beginning of an answer, and give the answer the headers of its request."""
        self.status = message.get("status", ACCEPTED)
        headers = MutableHeaders(scope=message)
        headers[HEADER] = self.name
        if self.account.trace is not None:
            headers[trace.ANSWER] = str(self.account.trace)
        if anthropic.speaks(scope):
            headers[anthropic.REQUEST_ID] = self.name
        for note, value in notes.headers(scope):
            headers[note] = value

    def end(self, client: str) -> None:
        """Write the line of the access log, and end the span."""
        milliseconds, status = 1000 * (time.perf_counter() - self.started), self.status or 500
        # The path only: a query may carry what does not belong into a log.
        line = {"method": self.method, "path": self.path, "status": status, "duration_ms": round(milliseconds, 1)}
        figures = {**line, **self.account.told(), "client": client}
        log.info("%s %s %d %.0f ms", self.method, self.path, status, milliseconds, extra={"figures": figures})
        if self.account.span is not None:
            answer: Attributes = {"http.request.method": self.method, "http.response.status_code": status}
            self.account.span.end({**answer, **self.account.attributes()}, failed=status >= 500)


class RequestId:
    """Takes over the client's ``X-Request-Id`` if it is harmless, else makes an id. ``figures`` counts the answers."""

    def __init__(self, app: ASGIApp, figures: Figures | None = None, traces: Traces | None = None) -> None:
        self._app = app
        self._figures = figures or Figures()
        self._traces = traces or NoTraces()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self._app(scope, receive, send)
            return
        asked = Asked.of(scope, self._traces)

        async def named(message: Message) -> None:
            if message["type"] in BEGINNINGS:
                asked.mark(message, scope)
            elif message["type"] == "websocket.close":
                asked.status = asked.status or REFUSED
            await send(message)

        with asked.served():
            try:
                await self._app(scope, receive, named)
            except Exception:
                # Here rather than in Starlette's own handler, which stands outside and does not know the id.
                log.exception("%s %s failed in an unforeseen way", asked.method, asked.path)
                if asked.status == ACCEPTED:
                    await send({"type": "websocket.close", "code": 1011})
                elif not asked.status:
                    await failures.respond(failures.INTERNAL, scope["path"])(scope, receive, named)
            finally:
                account = asked.account
                self._figures.request(account.engine, account.route, asked.status or 500)
                asked.end((scope.get("client") or ("",))[0])


class Routed:
    """Notes the route that served a request. The innermost middleware, since others may hand a copy of the scope on."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app
        self._paths: dict[Any, str] = {}
        """Paths of routes by endpoint: each route has an endpoint of its own."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        try:
            await self._app(scope, receive, send)
        finally:
            if (account := accounts.current.get()) is not None:
                self._paths = self._paths or {route.endpoint: route.path for route in scope["app"].routes}
                account.route = self._paths.get(scope.get("endpoint"), account.route)
