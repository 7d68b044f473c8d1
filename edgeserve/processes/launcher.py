"""Launchers start child processes; each platform has its own."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Protocol

from edgeserve.processes.child import Child
from edgeserve.processes.forker import Forker
from edgeserve.processes.spawner import Spawner


class Launcher(Protocol):
    """Starts children that end with this process. Any thread may call it."""

    def start(self) -> None:
        """Prepare for the first launch; never waits. Raises Busy or EngineFailure as ``launch`` does."""
        ...

    def launch(self, entry: str, arguments: dict[str, object], name: str) -> Child:
        """Start a child that runs ``entry``, "module:function", with its socket and ``arguments``, which are JSON.

        Blocks until the child has a pid. ``name`` shows in ps. Raises Busy when the system has no memory or process
        left, EngineFailure when it starts none for another reason, and ShuttingDown after ``stop``.
        """
        ...

    def pids(self) -> list[int]:
        """The processes that run: the children, and the fork server where there is one."""
        ...

    def stop(self) -> None:
        """Kill the children that a fork server holds, and end it. Blocks for seconds at most."""
        ...


def make_launcher(preload: Sequence[str] = (), platform: str = sys.platform) -> Launcher:
    """On Linux a fork server that has imported ``preload``; elsewhere a fresh interpreter a child.

    A fork is unsafe on macOS: Metal and Accelerate do not survive it.
    """
    return Forker(preload) if platform == "linux" else Spawner()
