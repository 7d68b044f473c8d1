"""The listening socket."""

from __future__ import annotations

import contextlib
import socket

from edgeserve.server import listen


def test_small_writes_leave_at_once() -> None:
    """Nagle's algorithm would hold each second one back until the client acknowledges, 40 ms later."""
    with contextlib.closing(listen("127.0.0.1", 0)) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()), contextlib.closing(listener.accept()[0]) as served:
            assert served.proto == socket.IPPROTO_TCP, "asyncio sets TCP_NODELAY on no other"
