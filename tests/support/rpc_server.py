"""A server that speaks as much of llama.cpp's RPC as ``edgeserve.splits.asking`` asks."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator

FREE, TOTAL = 1000, 2000


@contextlib.contextmanager
def rpc_server(reply: bytes | None = None, *, major: int = 7) -> Iterator[str]:
    """Yields its "address:port". ``reply``: bytes to send to each client instead of answers; b"" only listens."""
    with contextlib.closing(socket.create_server(("127.0.0.1", 0))) as listener:
        thread = threading.Thread(target=answer_all, args=(listener, reply, major), daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        thread.join()


def answer_all(listener: socket.socket, reply: bytes | None = None, major: int = 7) -> None:
    """Serve one client after another until the listener is shut down."""
    while True:
        try:
            client, _ = listener.accept()
        except OSError:
            return
        with client, client.makefile("rb") as lines:
            if reply is not None:
                client.sendall(reply)
                with contextlib.suppress(ConnectionResetError):  # the client has not read all of it
                    lines.read()
                continue
            while head := lines.read(9):
                command, length = struct.unpack("<BQ", head)
                lines.read(length)
                body = {14: bytes([major, 0, 0, 0]) + bytes(24), 11: struct.pack("<QQ", FREE, TOTAL)}[command]
                client.sendall(struct.pack("<Q", len(body)) + body)
