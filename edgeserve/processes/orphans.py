"""Children of a dead fork server, where this process must reap them: it is process 1 of a container, or a subreaper."""

from __future__ import annotations

import ctypes
import os
import threading

from edgeserve.system import libc

GET_CHILD_SUBREAPER = 37
"""Operation of prctl(2)."""


def adopts() -> bool:
    """Whether the kernel gives orphans to this process. Linux only."""
    flag = ctypes.c_int(0)
    libc.library().prctl(GET_CHILD_SUBREAPER, ctypes.byref(flag))
    return os.getpid() == 1 or bool(flag.value)


class Orphans:
    """Pids to reap. Any thread may call it."""

    def __init__(self) -> None:
        self._pids: set[int] = set()
        self._lock = threading.Lock()

    def add(self, pid: int) -> None:
        """Note a child whose fork server died; the kernel kills the child."""
        if adopts():
            with self._lock:
                self._pids.add(pid)

    def reap(self) -> None:
        """Reap those that have ended. Call it after the fork server itself was reaped."""
        with self._lock:
            self._pids = {pid for pid in self._pids if not _reaped(pid)}


def _reaped(pid: int) -> bool:
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:  # somebody else has reaped it
        return True
