"""Access to the server: by the key where one is set, else for programs and for the server's own pages."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Iterator

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from edgeserve import clients
from edgeserve.api import failures
from edgeserve.api.limits import limits_of
from edgeserve.api.origin import Rules
from edgeserve.api.web.public import is_public
from edgeserve.clients import LOOPBACK, Client
from edgeserve.errors import EdgeserveError, Forbidden, Unauthorized

OPEN = ("/v1/health",)
ASKED = ("http", "websocket")
BESIDE = (b"x-api-key", b"api-key")
"""Headers that hold a key alone: Anthropic's, and Azure's."""
OFFERED = "openai-insecure-api-key."
"""Beginning of the sub-protocol that holds the key of a browser's WebSocket, which can send no header."""
KEY = "edgeserve.key"
"""Key in a request's scope: the hash of the API key that came with the request."""


class KeyRequired:
    """Demands the key on every route but the health check and the files of the page. No foreign page can send it.

    A client sends ``Authorization: Bearer <key>``, as OpenAI's do, or one of the headers of ``BESIDE``.
    """

    def __init__(self, app: ASGIApp, key: str) -> None:
        self._app = app
        self._key = key.encode()
        self._name = hashlib.sha256(self._key).hexdigest()[:16]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ASKED and scope["path"] not in OPEN and not is_public(scope):
            if not any(hmac.compare_digest(given, self._key) for given in keys(scope)):
                text = "no key or a wrong one; send Authorization: Bearer <key>, or x-api-key: <key>"
                await _refuse(Unauthorized(text), scope, receive, send)
                return
            scope[KEY] = self._name
        with _serving(scope):
            await self._app(scope, receive, send)


class SameSite:
    """The check without a key: ``Host`` names this server, and no foreign page asks for a change (``Rules``)."""

    def __init__(self, app: ASGIApp, rules: Rules) -> None:
        self._app = app
        self._rules = rules

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ASKED and (why := self._rules.refusal(scope)):
            await _refuse(Forbidden(why), scope, receive, send)
            return
        with _serving(scope):
            await self._app(scope, receive, send)


def keys(scope: Scope) -> list[bytes]:
    """The keys that came with a request, whether right or wrong."""
    offered = scope.get("subprotocols") or ()
    found = [one.removeprefix(OFFERED).encode("latin-1", "replace") for one in offered if one.startswith(OFFERED)]
    for name, value in scope["headers"]:
        scheme, _, given = value.strip().partition(b" ")
        if name in BESIDE:
            found.append(value.strip())
        elif name == b"authorization" and scheme.lower() == b"bearer":
            found.append(given.strip())
    return found


@contextlib.contextmanager
def _serving(scope: Scope) -> Iterator[None]:
    """Name the client of the request for all code that serves it."""
    token = clients.current.set(client_of(scope))
    try:
        yield
    finally:
        clients.current.reset(token)


Endpoint = Callable[[Request], Awaitable[Response]]


def for_owner(endpoint: Endpoint) -> Endpoint:
    """The endpoint, for the owner of the box alone: whoever has the key, and without a key programs of this machine.

    Pages of other sites never get here (``SameSite``). ``--insecure`` lets other machines ask, not manage.
    """

    @functools.wraps(endpoint)
    async def checked(request: Request) -> Response:
        host = request.client.host if request.client else ""
        if not limits_of(request).api_key and not is_loopback(host):
            raise Forbidden(
                f"{request.url.path} changes the server, and no key is set: only programs of this machine may use it; "
                "set EDGESERVE_API_KEY, and send Authorization: Bearer <key>"
            )
        return await endpoint(request)

    return checked


def client_of(scope: Scope) -> Client:
    """The client of a request. All loopback addresses count as one, and IPv4 in IPv6's form as the IPv4 address."""
    host = (scope.get("client") or ("",))[0]
    return Client(scope.get(KEY, ""), LOOPBACK if is_loopback(host) else host.removeprefix("::ffff:"))


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
    await failures.respond(error, scope["path"])(scope, receive, send)
