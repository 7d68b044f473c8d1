"""Starts short-lived children."""

from __future__ import annotations

from edgeserve import clients
from edgeserve.errors import Busy, ShuttingDown
from edgeserve.media.helper import Helper
from edgeserve.media.leash import Leash
from edgeserve.media.task import Task
from edgeserve.processes.launcher import Launcher


def scarce(what: str, error: OSError) -> Busy:
    """The error for a system that has no descriptor or memory left for some work."""
    return Busy(f"the system has nothing left for {what}: {error.strerror}; try again", retry_after=5)


class Children:
    """Any thread may use it. ``launcher`` shares what the children need, and may rest while there are none."""

    def __init__(self, launcher: Launcher) -> None:
        self._launcher = launcher
        self._closed = False

    def prepare(self) -> None:
        """Begin what the first child would wait for. Raises as ``Launcher.start`` does; never waits."""
        self._launcher.start()

    def start(self, task: Task, leash: Leash | None = None) -> Helper:
        """Start a child for ``task``; the caller closes it. Blocks until it has a pid.

        Raises Busy, EngineFailure and ShuttingDown as ``Launcher.launch`` does, and Cancelled for a leash that is cut.
        """
        leash = leash or Leash()
        leash.check()
        bounds: dict[str, object] = {name: getattr(task.bounds, name) for name in ("memory", "cpu", "shared")}
        try:
            child = self._launcher.launch(task.entry, bounds, task.name)
        except OSError as error:
            raise scarce(task.name, error) from error
        if task.param is not None:
            child.client = clients.current.get().groups[0]
        return Helper(child, task, leash, self.check)

    def check(self) -> None:
        """Raises ShuttingDown once the children are closed."""
        if self._closed:
            raise ShuttingDown("the server ends and decodes nothing more")

    def close(self) -> None:
        """End the launcher, and with it all children. Blocks for seconds at most."""
        self._closed = True
        self._launcher.stop()
