"""The launcher lives from the first child until some time after the last."""

from __future__ import annotations

import errno
from collections.abc import Callable
from typing import Any

import pytest

from edgeserve.errors import Busy, ShuttingDown
from edgeserve.media.children import Children
from edgeserve.media.task import Bounds, Task

TASK = Task("none:none", "test", "file", Bounds())


class FakeTimer:
    def __init__(self, seconds: float, call: Callable[[], None]) -> None:
        self.seconds, self.call = seconds, call
        self.started = self.cancelled = False

    def start(self) -> None:
        self.started = True

    def cancel(self) -> None:
        self.cancelled = True


class FakeLauncher:
    def __init__(self) -> None:
        self.steps: list[str] = []
        self.error: Exception = Busy("the system has no process left")

    def start(self) -> None:
        self.steps.append("start")

    def launch(self, entry: str, arguments: dict[str, object], name: str) -> Any:
        raise self.error

    def stop(self) -> None:
        self.steps.append("stop")


class Box:
    """Children with their launchers and timers."""

    def __init__(self) -> None:
        self.launchers: list[FakeLauncher] = []
        self.timers: list[FakeTimer] = []
        self.children = Children(self._launcher, idle_seconds=60, timer=self._timer)

    def _launcher(self) -> FakeLauncher:
        self.launchers.append(FakeLauncher())
        return self.launchers[-1]

    def _timer(self, seconds: float, call: Callable[[], None]) -> FakeTimer:
        self.timers.append(FakeTimer(seconds, call))
        return self.timers[-1]


def test_nothing_is_there_before_the_first_child() -> None:
    box = Box()
    assert not box.launchers
    assert not box.children.is_ready
    box.children.prepare()
    assert box.launchers[0].steps == ["start"]
    assert box.children.is_ready


def test_an_idle_launcher_ends_and_the_next_child_gets_another() -> None:
    box = Box()
    box.children.prepare()
    assert (box.timers[0].seconds, box.timers[0].started) == (60, True)
    box.timers[0].call()
    assert box.launchers[0].steps == ["start", "stop"]
    assert not box.children.is_ready
    box.children.prepare()
    assert len(box.launchers) == 2


def test_a_new_child_puts_the_end_off() -> None:
    box = Box()
    box.children.prepare()
    box.children.prepare()
    assert [timer.cancelled for timer in box.timers] == [True, False]
    assert len(box.launchers) == 1


def test_a_launch_that_fails_leaves_the_launcher_idle() -> None:
    box = Box()
    with pytest.raises(Busy):
        box.children.start(TASK)
    box.timers[-1].call()
    assert box.launchers[0].steps == ["stop"]


def test_a_system_without_descriptors_is_busy() -> None:
    box = Box()
    box.children.prepare()
    box.launchers[0].error = OSError(errno.EMFILE, "Too many open files")
    with pytest.raises(Busy, match="the system has nothing left for test: Too many open files; try again"):
        box.children.start(TASK)
    box.timers[-1].call()
    assert not box.children.is_ready


def test_closed_children_start_nothing() -> None:
    box = Box()
    box.children.prepare()
    box.children.close()
    assert box.launchers[0].steps == ["start", "stop"]
    assert box.timers[0].cancelled
    with pytest.raises(ShuttingDown):
        box.children.prepare()
    box.timers[0].call()  # it may have run already
    assert box.launchers[0].steps == ["start", "stop"]
