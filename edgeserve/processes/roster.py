"""All launchers of the server."""

from __future__ import annotations

from edgeserve.processes.launcher import Launcher
from edgeserve.processes.resting import Resting


class Roster:
    """Any thread may read it and add to it."""

    def __init__(self) -> None:
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
        return [pid for launcher in self._of_helpers for pid in launcher.children()]

    def stop(self) -> None:
        """End all of them, and their children. Blocks for seconds at most."""
        for launcher in self._launchers:
            launcher.stop()
