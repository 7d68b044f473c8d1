"""Access to the server: by a key where one is in force, else for programs and for the server's own pages."""

from __future__ import annotations

import contextlib
import functools
import ipaddress
from collections.abc import Awaitable, Callable, Iterator
from urllib.parse import unquote_to_bytes

from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

from edgeserve import clients
from edgeserve.api import failures
from edgeserve.api.admission import guarded
from edgeserve.api.origin import SAFE, Rules
from edgeserve.api.web.public import is_public
from edgeserve.clients import LOOPBACK, Client
from edgeserve.errors import EdgeserveError, Forbidden, TooManyRequests, Unauthorized
from edgeserve.keys.key import Key
from edgeserve.keys.ring import Keyring

OPEN = ("/v1/health", "/health/live", "/health/ready")
ASKED = ("http", "websocket")
BESIDE = (b"x-api-key", b"api-key")
"""Headers that hold a key alone: Anthropic's, and Azure's."""
OFFERED = "openai-insecure-api-key."
"""Beginning of the sub-protocol that holds the key of a browser's WebSocket, which can send no header.

The key stands there as it is, or percent-encoded (RFC 3986, 2.1): a sub-protocol takes no "/" and no "=".
"""
NO_KEY = "no key or a wrong one; send Authorization: Bearer <key>, or x-api-key: <key>"
KEY = "edgeserve.key"
"""Key in a request's scope: the group of clients with the same API key (``Key.group``)."""
SOLE = "edgeserve.sole"
"""Key in a request's scope: whether this is the only key in force."""
GRANT = "edgeserve.grant"
"""Key in a request's scope: the ``Key`` that came with the request."""


class Door:
    """Demands a key where one is in force, else that the request comes from a program or an own page.

    Keys may come while the server runs.
    """

    def __init__(self, app: ASGIApp, ring: Keyring, rules: Rules) -> None:
        self._ring = ring
        self._locked, self._open = KeyRequired(app, ring), SameSite(app, rules, ring)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ASKED:
            self._ring.look()
        await (self._locked if self._ring.required else self._open)(scope, receive, send)


class KeyRequired:
    """Demands a key on every route but the health checks and the page's files, and holds each key to its limits.

    No foreign page has a key.

    A client sends ``Authorization: Bearer <key>``, as OpenAI's do, or one of the headers of ``BESIDE``. The requests
    that only read (GET, HEAD, OPTIONS) count towards no limit.
    """

    def __init__(self, app: ASGIApp, ring: Keyring) -> None:
        self._app = app
        self._ring = ring

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        counted: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        with contextlib.ExitStack() as held:
            if scope["type"] in ASKED and scope["path"] not in OPEN and not is_public(scope):
                key = self._ring.find(keys(scope))
                if key is None:
                    await _refuse(Unauthorized(self._ring.problem or NO_KEY), scope, receive, send)
                    return
                scope[KEY], scope[SOLE], scope[GRANT] = key.group, self._ring.sole, key
                receive, send = held.enter_context(guarded(self._ring, key, scope, receive, send))
                if scope["type"] == "websocket" or scope["method"] not in SAFE:
                    counted = self._ring.pace(key).request()
            try:
                held.enter_context(counted)
            except TooManyRequests as error:
                await _refuse(error, scope, receive, send)
                return
            with _serving(scope):
                await self._app(scope, receive, send)


class SameSite:
    """The check without a key: ``Host`` names this server, and no foreign page asks for a change (``Rules``)."""

    def __init__(self, app: ASGIApp, rules: Rules, ring: Keyring) -> None:
        self._app = app
        self._rules = rules
        self._ring = ring

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] in ASKED and (why := self._rules.refusal(scope)):
            await _refuse(Forbidden(why), scope, receive, send)
            return
        if scope["type"] not in ASKED:
            await self._app(scope, receive, send)
            return
        with guarded(self._ring, None, scope, receive, send) as (hear, tell), _serving(scope):
            await self._app(scope, hear, tell)


def keys(scope: Scope) -> list[bytes]:
    """The keys that came with a request, whether right or wrong."""
    offered = [one.removeprefix(OFFERED) for one in scope.get("subprotocols") or () if one.startswith(OFFERED)]
    found = [one.encode("latin-1", "replace") for one in offered]
    found += [unquote_to_bytes(one) for one in offered if "%" in one]
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
    """The endpoint, for the owner of the box alone: a key of scope admin, and without keys programs of this machine.

    Pages of other sites never get here (``SameSite``). ``--insecure`` lets other machines ask, not manage.
    """

    @functools.wraps(endpoint)
    async def checked(request: Request) -> Response:
        _require_owner(request)
        return await endpoint(request)

    return checked


def _require_owner(request: Request) -> None:
    """Raises Forbidden."""
    grant: Key | None = request.scope.get(GRANT)
    host = request.client.host if request.client else ""
    if grant is not None and grant.scope != "admin":
        raise Forbidden(
            f"{request.method} {request.url.path} is for keys of the scope admin, and {grant.name!r} has the scope "
            f"{grant.scope}: ask the owner of this server for another key (edgeserve key add --scope admin)"
        )
    if grant is None and not is_loopback(host):
        raise Forbidden(
            f"{request.url.path} changes the server, and no key is set: only programs of this machine may use it; "
            "set EDGESERVE_API_KEY, and send Authorization: Bearer <key>"
        )


def client_of(scope: Scope) -> Client:
    """The client of a request. All loopback addresses count as one, and IPv4 in IPv6's form as the IPv4 address."""
    host = (scope.get("client") or ("",))[0]
    address = LOOPBACK if is_loopback(host) else host.removeprefix("::ffff:")
    return Client(scope.get(KEY, ""), address, scope.get(SOLE, False))


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
