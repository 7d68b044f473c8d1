"""The client of a request, and the key."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from edgeserve.api.auth import KeyRequired, client_of, is_loopback
from edgeserve.clients import Client


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
