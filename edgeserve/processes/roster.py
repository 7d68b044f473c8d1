"""All launchers of the server."""

from __future__ import annotations

import logging
from collections.abc import Callable

from edgeserve.processes.child import Child
from edgeserve.processes.launcher import Launcher
from edgeserve.processes.resting import Resting
from edgeserve.system import process
from edgeserve.units import MB

log = logging.getLogger("edgeserve.processes")

LARGE = 32 * MB
"""Bytes of a helper that are worth its end. Most take less."""


def size_of(pid: int) -> int:
    """Bytes of a process that the system cannot take back; 0 once it has ended."""
    try:
        return process.read(pid=str(pid)).own
    except (OSError, KeyError):
        return 0


class Roster:
    """Any thread may read it and add to it. ``size``: bytes that a process holds by its pid."""

    def __init__(self, size: Callable[[int], int] = size_of) -> None:
        self._size = size
        self._launchers: list[Launcher] = []
        self._of_helpers: list[Resting] = []

    def add(self, launcher: Launcher) -> Launcher:
        self._launchers.append(launcher)
        return launcher

    def add_helpers(self, launcher: Resting) -> Launcher:
        """Add a launcher whose children serve one request each."""
        self._of_helpers.append(launcher)
        return self.add(launcher)

    def pids(self) -> list[int]:
        """Every process that the server has started and that runs."""
        return [pid for launcher in self._launchers for pid in launcher.pids()]

    def helpers(self) -> list[int]:
        """Pids of the processes that run for one request each."""
        return [child.pid for child in self._running_helpers()]

    def end_largest_helper(self) -> bool:
        """Kill the helper that holds most memory, where that is much; its request gets 503. Blocks until it has gone.

        False where none holds much.
        """
        held = [(size, child) for child in self._running_helpers() if (size := self._size(child.pid)) >= LARGE]
        if not held:
            return False
        size, child = max(held, key=lambda one: one[0])
        log.warning("memory ran critical: %s (pid %d), which held %d MB, is ended", child.name, child.pid, size // MB)
        child.kill()
        return True

    def _running_helpers(self) -> list[Child]:
        return [child for launcher in self._of_helpers for child in launcher.running()]

    def stop(self) -> None:
        """End all of them, and their children. Blocks for seconds at most."""
        for launcher in self._launchers:
            launcher.stop()
