"""Who may ask: whoever has the key, where there is one; else whoever reaches the server, but not from another site."""

from __future__ import annotations

import hmac
import ipaddress
from urllib.parse import urlsplit

from starlette.types import ASGIApp, Receive, Scope, Send

from edgeserve.api import failures
from edgeserve.errors import EdgeserveError, Forbidden, Unauthorized

OPEN = ("/v1/health",)
ASKED = ("http", "websocket")


class KeyRequired:
    """``Authorization: Bearer <key>`` on every route but the health check. No page of another site can send it."""

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ASKED and scope["path"] not in OPEN:
            scheme, _, given = dict(scope["headers"]).get(b"authorization", b"").partition(b" ")
            if not hmac.compare_digest(given.strip(), self._key) or scheme.lower() != b"bearer":
                text = "no key or a wrong one; send Authorization: Bearer <key>"
                await _refuse(Unauthorized(text), scope, receive, send)
                return
        await self._app(scope, receive, send)


class SameSite:
    """Stands where no key is asked for. Browsers let any page open a WebSocket to any server, and tell only in
    ``Origin`` whose page it is: it must be this server's own. Clients that are no browsers send none."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            headers = dict(scope["headers"])
            origin, host = (headers.get(name, b"").decode("latin-1") for name in (b"origin", b"host"))
            if origin and not same_site(origin, host, local=_is_loopback((scope.get("server") or ("",))[0])):
                text = f"a page of {origin[:200]} may not use this server; set api_key in models.toml, and send it"
                await _refuse(Forbidden(text), scope, receive, send)
                return
        await self._app(scope, receive, send)


def same_site(origin: str, host: str, *, local: bool) -> bool:
    """Whether a page of this origin was served under this ``Host``. On a ``local`` connection the host must be a name
    of this machine, too: any other name may have been made to point here by whoever owns it (DNS rebinding)."""
    try:
        page, here = urlsplit(origin), urlsplit(f"//{host}")
        same = (page.hostname, page.port or _port(page.scheme)) == (here.hostname, here.port or _port(page.scheme))
    except ValueError:
        return False
    return same and page.hostname is not None and (not local or _is_loopback(page.hostname))


def _port(scheme: str) -> int:
    return 443 if scheme == "https" else 80


def _is_loopback(name: str) -> bool:
    if name == "localhost":
        return True
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return False


async def _refuse(error: EdgeserveError, scope: Scope, receive: Receive, send: Send) -> None:
    if scope["type"] == "websocket":
        await receive()  # its "websocket.connect"
    await failures.respond(error)(scope, receive, send)
