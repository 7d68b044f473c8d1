"""Children are started by their launcher, and not at all once they are closed."""

from __future__ import annotations

import errno
from typing import Any

import pytest

from edgeserve.errors import Busy, Cancelled, ShuttingDown
from edgeserve.media.children import Children
from edgeserve.media.leash import Leash
from edgeserve.media.task import Bounds, Task
from edgeserve.units import MB

TASK = Task("none:none", "test", "file", Bounds(memory=7 * MB, cpu=3))


class FakeLauncher:
    """Records its steps, and launches nothing."""

    def __init__(self, error: Exception) -> None:
        self.steps: list[Any] = []
        self._error = error

    def start(self) -> None:
        self.steps.append("start")

    def launch(self, entry: str, arguments: dict[str, object], name: str) -> Any:
        self.steps.append((entry, arguments, name))
        raise self._error

    def pids(self) -> list[int]:
        return []

    def stop(self) -> None:
        self.steps.append("stop")


def test_a_child_is_launched_with_its_bounds() -> None:
    launcher = FakeLauncher(Busy("the system has no process left"))
    children = Children(launcher)
    children.prepare()
    with pytest.raises(Busy, match="no process left"):
        children.start(TASK)
    assert launcher.steps == ["start", ("none:none", {"memory": 7 * MB, "cpu": 3, "shared": False}, "test")]


def test_a_system_without_descriptors_is_busy() -> None:
    children = Children(FakeLauncher(OSError(errno.EMFILE, "Too many open files")))
    with pytest.raises(Busy, match="the system has nothing left for test: Too many open files; try again"):
        children.start(TASK)


def test_nothing_is_launched_for_a_client_that_left() -> None:
    launcher, leash = FakeLauncher(Busy("none")), Leash()
    leash.cut()
    with pytest.raises(Cancelled):
        Children(launcher).start(TASK, leash)
    assert not launcher.steps


def test_closed_children_end_their_launcher() -> None:
    launcher = FakeLauncher(Busy("none"))
    children = Children(launcher)
    children.check()
    children.close()
    assert launcher.steps == ["stop"]
    with pytest.raises(ShuttingDown):
        children.check()
