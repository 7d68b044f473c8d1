"""Keepalive on the listening socket of a library, as its connections inherit it."""

from __future__ import annotations

import socket
import sys

import pytest

from edgeserve.system.keepalive import COUNT, IDLE, INTERVAL, keep_alive


def test_accepted_connections_are_kept_alive_and_others_are_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.create_server(("127.0.0.1", 0)) as other:
        address = listener.getsockname()
        assert keep_alive(address[1])
        with socket.create_connection(address), listener.accept()[0] as line:
            assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            if sys.platform == "linux":
                options = (socket.TCP_KEEPIDLE, socket.TCP_KEEPINTVL, socket.TCP_KEEPCNT)
                assert [line.getsockopt(socket.IPPROTO_TCP, one) for one in options] == [IDLE, INTERVAL, COUNT]
        assert not other.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)


@pytest.mark.parametrize("kind", [socket.SOCK_STREAM, socket.SOCK_DGRAM])
def test_a_port_without_a_listener_changes_nothing(kind: int) -> None:
    with socket.socket(socket.AF_INET, kind) as bound:
        bound.bind(("127.0.0.1", 0))
        assert not keep_alive(bound.getsockname()[1])
        assert not bound.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
        bound.getsockname()  # it is open yet
