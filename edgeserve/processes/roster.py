"""All launchers of the server."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable

from edgeserve.processes.child import Child
from edgeserve.processes.launcher import Launcher
from edgeserve.processes.resting import Resting
from edgeserve.system import process
from edgeserve.units import MB

log = logging.getLogger("edgeserve.processes")

LARGE = 32 * MB
"""Bytes of the decoders of one client that are worth the end of one. Most take less."""


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
        """Kill the largest decoder of the client whose decoders hold most memory; its request gets 503.

        Encoders stay: clients cannot make them large. Blocks until the decoder has gone. False where no client's hold
        much, and where the kernel does not end it.
        """
        sizes = {child: self._size(child.pid) for child in self._running_helpers() if child.client is not None}
        held: Counter[tuple[str, ...] | None] = Counter()
        for child, size in sizes.items():
            held[child.client] += size
        if not sizes or max(held.values()) < LARGE:
            return False
        child = max(sizes, key=lambda one: (held[one.client], sizes[one]))
        told = child.name, child.pid, sizes[child] // MB
        log.warning("memory ran critical: %s (pid %d), which held %d MB, is ended", *told)
        return child.kill() is not None

    def _running_helpers(self) -> list[Child]:
        return [child for launcher in self._of_helpers for child in launcher.running()]

    def stop(self) -> None:
        """End all of them, and their children. Blocks for seconds at most."""
        for launcher in self._launchers:
            launcher.stop()
