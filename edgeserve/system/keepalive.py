"""TCP keepalive for connections that a library accepts: set on its listening socket, from which they inherit it."""

from __future__ import annotations

import contextlib
import os
import socket
import stat

IDLE, INTERVAL, COUNT = 10, 5, 3
"""Seconds of silence before the first probe, seconds between two, and probes without an answer that end a connection.
"""
MOST_FILES = 256


def keep_alive(port: int) -> bool:
    """Let the system end connections to this port of this process whose other machine has gone. False: nobody listens.

    Connections that were accepted before stay as they are.
    """
    return any(_set(descriptor, port) for descriptor in range(3, MOST_FILES))


def _set(descriptor: int, port: int) -> bool:
    with contextlib.suppress(OSError):  # no such descriptor
        if stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            found = socket.socket(fileno=descriptor)
            try:
                return _is_listener(found, port) and _keep(found)
            finally:
                found.detach()  # it is the library's
    return False


def _is_listener(found: socket.socket, port: int) -> bool:
    is_tcp = found.family == socket.AF_INET and found.type == socket.SOCK_STREAM
    return is_tcp and found.getsockname()[1] == port and bool(found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))


def _keep(found: socket.socket) -> bool:
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", IDLE), ("TCP_KEEPINTVL", INTERVAL), ("TCP_KEEPCNT", COUNT)):
        if (option := getattr(socket, name, None)) is not None:  # macOS has another name for the first
            found.setsockopt(socket.IPPROTO_TCP, option, value)
    return True
