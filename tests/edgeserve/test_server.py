"""The listening socket."""

from __future__ import annotations

import asyncio
import contextlib
import socket

import pytest
from support.server import build, fake_pool

from edgeserve.errors import ConfigError
from edgeserve.server import Server, listen


def test_small_writes_leave_at_once() -> None:
    """Nagle's algorithm would hold each second one back until the client acknowledges, 40 ms later."""
    with contextlib.closing(listen("127.0.0.1", 0)) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()), contextlib.closing(listener.accept()[0]) as served:
            assert served.proto == socket.IPPROTO_TCP, "asyncio sets TCP_NODELAY on no other"


@pytest.mark.parametrize("host", ["a" * 70 + ".example", "\udcff"])
def test_a_host_that_is_none(host: str) -> None:
    with pytest.raises(ConfigError, match=r"cannot listen on .* port 0: .*; choose another with --port"):
        listen(host, 0)


def test_a_port_that_is_taken() -> None:
    with contextlib.closing(listen("127.0.0.1", 0)) as other:
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(ConfigError, match=f"cannot listen on 127.0.0.1 port {port}: Address already in use"):
            listen("127.0.0.1", port)


def test_a_port_that_is_taken_while_models_are_mapped() -> None:
    pool, mine = fake_pool(["llm"]), listen("127.0.0.1", 0)
    with mine, listen("127.0.0.1", mine.getsockname()[1]) as other:
        other.listen()
        with pytest.raises(ConfigError, match="cannot listen: Address already in use"):
            asyncio.run(Server(build(pool), pool, 1.0).serve(sockets=[mine]))
