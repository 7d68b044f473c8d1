"""Sockets that systemd opened for the server (sd_listen_fds(3)): it starts the server for the first connection."""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Mapping

from edgeserve.errors import ConfigError

FIRST = 3
"""The first descriptor behind the standard streams."""
MOST = 16


def listeners(environ: Mapping[str, str]) -> list[socket.socket]:
    """The listening sockets that this process was given; none where it was started otherwise.

    Variables: ``LISTEN_PID``, the process that is meant, and ``LISTEN_FDS``, the number of sockets. Raises ConfigError
    for descriptors that are no listening TCP sockets.
    """
    count = environ.get("LISTEN_FDS", "")
    if environ.get("LISTEN_PID") != str(os.getpid()) or not count.isdigit() or not 0 < int(count) <= MOST:
        return []
    with contextlib.ExitStack() as opened:
        found = [opened.enter_context(contextlib.closing(_socket(FIRST + one))) for one in range(int(count))]
        opened.pop_all()
    return found


def _socket(descriptor: int) -> socket.socket:
    """Raises ConfigError."""
    expected = f"descriptor {descriptor} of LISTEN_FDS: expected a listening TCP socket (ListenStream= with a port)"
    try:
        found = socket.socket(fileno=descriptor)
    except OSError as error:
        raise ConfigError(f"{expected}: {error.strerror}") from None
    stream = found.family in (socket.AF_INET, socket.AF_INET6) and found.type == socket.SOCK_STREAM
    if not stream or not found.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
        found.detach()
        raise ConfigError(expected)
    found.set_inheritable(False)
    return found
