"""Who may ask: whoever has the key, where there is one; else any program that reaches the server, and its own pages."""

from __future__ import annotations

import hashlib
import hmac
import ipaddress

from starlette.types import ASGIApp, Receive, Scope, Send

from edgeserve.api import failures
from edgeserve.api.origin import Rules
from edgeserve.errors import EdgeserveError, Forbidden, Unauthorized
from edgeserve.live.sessions import Client

OPEN = ("/v1/health",)
ASKED = ("http", "websocket")
KEY = "edgeserve.key"
"""In a request's scope: which key it came with, in a form that tells nothing of the key."""


class KeyRequired:
    """``Authorization: Bearer <key>`` on every route but the health check. No page of another site can send it."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key.encode()
        self._name = hashlib.sha256(self._key).hexdigest()[:16]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ASKED and scope["path"] not in OPEN:
            scheme, _, given = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
            if not hmac.compare_digest(given.strip(), self._key) or scheme.lower() != b"bearer":
                text = "no key or a wrong one; send Authorization: Bearer <key>"
                await _refuse(Unauthorized(text), scope, receive, send)
                return
            scope[KEY] = self._name
        await self._app(scope, receive, send)


class SameSite:
    """Stands where no key is asked for. The server answers to names of its own only, and obeys no foreign page."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ASKED and (why := self._rules.refusal(scope)):
            await _refuse(Forbidden(why), scope, receive, send)
            return
        await self._app(scope, receive, send)


def client_of(scope: Scope) -> Client:
    """Who asks. All addresses of this machine's own count as one, and an IPv4 address in IPv6's form as itself."""
    host = (scope.get("client") or ("",))[0]
    return Client(scope.get(KEY, ""), "loopback" if is_loopback(host) else host.removeprefix("::ffff:"))


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches the address."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    mapped = getattr(address, "ipv4_mapped", None)
    return (mapped or address).is_loopback


async def _refuse(error: EdgeserveError, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()  # its "websocket.connect"
    await failures.respond(error)(scope, receive, send)
