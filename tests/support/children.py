"""Looking at child processes from their server's side (``edgeserve.processes``)."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import psutil
import pytest
from support import fake_server

from edgeserve.processes.child import Child

linux = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: /proc, or a fork server")
SECONDS = 20.0
"""Longest wait for anything; never reached unless something is wrong."""


def gone(pid: int) -> bool:
    """Whether a process has ended; a zombie only waits for its parent."""
    with contextlib.suppress(psutil.NoSuchProcess):
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    return True


def read(child: Child) -> Any:
    """The JSON that an entry sends before it ends its socket."""
    child.socket.settimeout(SECONDS)
    with child.socket.makefile("rb") as file:
        return json.loads(file.read())


def first(child: Child, size: int = 4096) -> bytes:
    """The first bytes that an entry sends."""
    child.socket.settimeout(SECONDS)
    return child.socket.recv(size)


def started_server(make: Callable[[], object], *orders: str) -> tuple[subprocess.Popen[str], list[int]]:
    """A ``support.fake_server`` with this class of launcher, and the pids of all processes below it."""
    command = [sys.executable, fake_server.__file__, f"{make.__module__}:{make.__qualname__}", *orders]  # type: ignore[attr-defined]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout
    return server, json.loads(server.stdout.readline())
