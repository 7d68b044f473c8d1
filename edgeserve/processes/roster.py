"""All launchers of the server."""

from __future__ import annotations

from edgeserve.processes.launcher import Launcher


class Roster:
    """Any thread may read it and add to it."""

    def __init__(self) -> None:
        self._launchers: list[Launcher] = []

    def add(self, launcher: Launcher) -> Launcher:
        self._launchers.append(launcher)
        return launcher

    def pids(self) -> list[int]:
        """Every process that the server has started and that runs."""
        return [pid for launcher in self._launchers for pid in launcher.pids()]

    def stop(self) -> None:
        """End all of them, and their children. Blocks for seconds at most."""
        for launcher in self._launchers:
            launcher.stop()
