"""The client of a request, and the key."""

from __future__ import annotations

import asyncio
import contextlib
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from edgeserve.api.auth import KeyRequired, client_of, for_owner, is_loopback
from edgeserve.api.limits import Limits
from edgeserve.api.routes import ENTRIES, routes
from edgeserve.clients import Client
from edgeserve.errors import Forbidden


@pytest.mark.parametrize(
    ("address", "known_as"),
    [
        (("127.0.0.1", 5), "loopback"),
        (("127.9.9.9", 5), "loopback"),
        (("::1", 5), "loopback"),
        (("::ffff:127.0.0.1", 5), "loopback"),
        (("::ffff:192.0.2.7", 5), "192.0.2.7"),
        (("192.0.2.7", 6), "192.0.2.7"),
        (("2001:db8::1", 5), "2001:db8::1"),
        (None, ""),
    ],
)
def test_without_a_key_by_the_address(address: Any, known_as: str) -> None:
    assert client_of({"type": "http", "client": address, "headers": []}) == Client("", known_as)


def test_with_a_key_by_that_which_does_not_stand_there() -> None:
    seen: list[Client] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        seen.append(client_of(scope))

    def ask(key: str) -> None:
        headers = [(b"authorization", f"bearer {key}".encode())]
        scope = {"type": "http", "path": "/v1/chat", "client": ("192.0.2.7", 5), "headers": headers}
        asyncio.run(KeyRequired(app, key)(scope, None, None))  # type: ignore[arg-type]

    ask("sesame")
    ask("another")
    ask("sesame")
    assert seen[0] == seen[2] != seen[1]
    assert "sesame" not in repr(seen[0])
    assert seen[0].owner == Client(seen[0].key)


@pytest.mark.parametrize(
    "host", ["", "localhost", "0.0.0.0", "::", "10.0.0.1", "127.0.0.1.far.example", "::ffff:10.0.0.1"]
)
def test_other_addresses_are_not_loopback(host: str) -> None:
    assert not is_loopback(host)


@pytest.mark.parametrize(
    ("key", "client", "served"),
    [
        ("", ("127.0.0.1", 5), True),
        ("", ("::1", 5), True),
        ("", ("192.0.2.7", 5), False),
        ("", ("::ffff:10.0.0.1", 5), False),
        ("", None, False),
        ("sesame", ("192.0.2.7", 5), True),  # KeyRequired has checked the key
    ],
)
def test_only_the_owner_manages_the_server(key: str, client: Any, served: bool) -> None:
    asked: list[Request] = []

    async def endpoint(request: Request) -> Response:
        asked.append(request)
        return Response()

    state = SimpleNamespace(state=SimpleNamespace(limits=Limits(api_key=key)))
    request = Request({"type": "http", "method": "POST", "path": "/admin/reload", "headers": [], "app": state})
    request.scope["client"] = client
    with contextlib.nullcontext() if served else pytest.raises(Forbidden, match="only programs of this machine"):
        asyncio.run(for_owner(endpoint)(request))  # type: ignore[arg-type]
    assert bool(asked) is served


def test_every_route_that_manages_the_server_is_the_owners() -> None:
    managing = [
        one for one in ENTRIES if one.path.startswith(("/admin", "/models", "/slots", "/api/pull", "/api/delete"))
    ]
    managing += [one for one in ENTRIES if one.path.startswith("/memory") and one.method == "POST"]
    assert len(managing) >= 19
    assert [one.path for one in managing if not one.owner] == []
    wrapped = {route.path for route in routes() if isinstance(route, Route) and hasattr(route.endpoint, "__wrapped__")}
    assert {one.path for one in managing} == wrapped
