"""A launcher lives from the first child until some time after the last."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest

from edgeserve.errors import Busy, ShuttingDown
from edgeserve.processes.resting import Resting
from edgeserve.processes.roster import Roster, size_of
from edgeserve.units import MB


class FakeTimer:
    def __init__(self, seconds: float, call: Callable[[], None]) -> None:
        self.seconds, self.call = seconds, call
        self.started = self.cancelled = False

    def start(self) -> None:
        self.started = True

    def cancel(self) -> None:
        self.cancelled = True


class FakeChild:
    pid, exit, name = 8, None, "picture decoder"
    client: tuple[str, ...] | None = ("ann",)

    def kill(self) -> int | None:
        self.exit = -9  # type: ignore[assignment]
        return self.exit

    def on_close(self, call: Callable[[], None]) -> None:
        self.close = call


class FakeLauncher:
    """Launches children with pid 8 as a fork server of pid 7; ``refuses`` makes the system refuse."""

    refuses = False

    def __init__(self) -> None:
        self.steps: list[str] = []

    def start(self) -> None:
        self.steps.append("start")

    def launch(self, entry: str, arguments: dict[str, object], name: str) -> Any:
        if self.refuses:
            raise Busy("the system has no process left")
        self.steps.append("launch")
        return FakeChild()

    def pids(self) -> list[int]:
        return [7]

    def stop(self) -> None:
        self.steps.append("stop")


class Box:
    """A resting launcher with those under it, and its timers."""

    def __init__(self) -> None:
        self.launchers: list[FakeLauncher] = []
        self.timers: list[FakeTimer] = []
        self.one = Resting(self._launcher, idle_seconds=60, timer=self._timer)

    def _launcher(self) -> Any:
        self.launchers.append(FakeLauncher())
        return self.launchers[-1]

    def _timer(self, seconds: float, call: Callable[[], None]) -> FakeTimer:
        self.timers.append(FakeTimer(seconds, call))
        return self.timers[-1]

    def launch(self) -> Any:
        return self.one.launch("none:none", {}, "test")


def test_nothing_is_there_before_the_first_child() -> None:
    box = Box()
    assert (box.launchers, box.one.pids()) == ([], [])
    box.launch()
    assert box.launchers[0].steps == ["launch"]
    assert box.one.pids() == [7]


def test_it_ends_some_time_after_the_last_child_and_the_next_gets_another() -> None:
    box = Box()
    first, second = box.launch(), box.launch()
    first.close()
    assert box.timers == []
    second.close()
    assert (box.timers[0].seconds, box.timers[0].started) == (60, True)
    box.timers[0].call()
    assert box.launchers[0].steps == ["launch", "launch", "stop"]
    assert box.one.pids() == []
    box.launch()
    assert box.launchers[1].steps == ["launch"]


def test_a_new_child_puts_the_end_off() -> None:
    box = Box()
    box.launch().close()
    box.launch()
    assert box.timers[0].cancelled
    box.timers[0].call()  # it may have been on its way already
    assert box.launchers[0].steps == ["launch", "launch"]


def test_what_is_started_ahead_ends_when_no_child_comes() -> None:
    box = Box()
    box.one.start()
    box.timers[0].call()
    assert box.launchers[0].steps == ["start", "stop"]


def test_a_launch_that_fails_counts_no_child(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeLauncher, "refuses", True)
    box = Box()
    with pytest.raises(Busy):
        box.launch()
    box.timers[-1].call()
    assert box.launchers[0].steps == ["stop"]


def test_without_a_thread_for_its_timer_it_ends_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(timer: FakeTimer) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(FakeTimer, "start", refuse)
    box = Box()
    box.one.start()
    assert box.launchers[0].steps == ["start", "stop"]
    first, second = box.launch(), box.launch()
    first.close()
    assert box.launchers[1].steps == ["launch", "launch"]
    second.close()
    assert box.launchers[1].steps == ["launch", "launch", "stop"]


def test_after_stop_it_starts_nothing() -> None:
    box = Box()
    child = box.launch()
    box.one.stop()
    assert box.launchers[0].steps == ["launch", "stop"]
    child.close()
    assert box.timers == []
    with pytest.raises(ShuttingDown):
        box.launch()


def test_a_roster_knows_the_processes_of_all_launchers() -> None:
    roster, boxes = Roster(), [Box(), Box(), Box()]
    for box in boxes:
        roster.add(box.one)
    boxes[0].launch()
    boxes[2].launch()
    assert roster.pids() == [7, 7]
    assert roster.helpers() == []
    helpers = Box()
    roster.add_helpers(helpers.one)
    child = helpers.one.launch("module:function", {}, "picture decoder")
    assert (roster.pids(), roster.helpers()) == ([7, 7, 7], [8])
    child.exit = 0  # type: ignore[misc]
    assert roster.helpers() == []
    roster.stop()
    assert [launcher.steps for box in boxes for launcher in box.launchers] == [["launch", "stop"]] * 2


def test_the_helper_that_holds_most_memory_ends_where_that_is_much() -> None:
    sizes = [20 * MB, 80 * MB, 50 * MB]
    children = [FakeChild() for _ in sizes]
    for number, child in enumerate(children):
        child.pid = number
    roster, box = Roster(sizes.__getitem__), Box()
    roster.add_helpers(box.one)
    box.one.running = lambda: [one for one in children if one.exit is None]  # type: ignore[assignment,misc,return-value]
    assert [roster.end_largest_helper() for _ in range(3)] == [True, True, False]
    assert [child.exit for child in children] == [None, -9, -9]


def roster_of(*held: tuple[str | None, int]) -> tuple[Roster, list[FakeChild]]:
    """Children by the client of each and its megabytes."""
    children = [FakeChild() for _ in held]
    for number, (child, (client, _)) in enumerate(zip(children, held, strict=True)):
        child.pid, child.client = number, client and (client,)  # type: ignore[assignment]
    roster, box = Roster(lambda pid: held[pid][1] * MB), Box()
    roster.add_helpers(box.one)
    box.one.running = lambda: [one for one in children if one.exit is None]  # type: ignore[assignment,misc,return-value]
    return roster, children


def test_the_client_whose_decoders_hold_most_loses_one_and_nobody_else() -> None:
    """Many small decoders of one client made the one photo of another end."""
    roster, children = roster_of(("ann", 40), *[("eve", 31)] * 4)
    assert [roster.end_largest_helper() for _ in range(3)] == [True] * 3
    assert [child.exit for child in children] == [None, -9, -9, -9, None]


def test_an_encoder_of_an_answer_under_way_stays() -> None:
    roster, children = roster_of((None, 200), ("eve", 31))
    assert not roster.end_largest_helper()
    assert [child.exit for child in children] == [None, None]


def test_a_decoder_that_the_kernel_holds_is_not_ended_again_and_again() -> None:
    """The answer that ended it waited 10 s for each time, for ever."""
    roster, (child,) = roster_of(("eve", 80))
    child.kill = lambda: None  # type: ignore[method-assign]
    assert not roster.end_largest_helper()


def test_a_process_that_has_ended_holds_nothing() -> None:
    assert size_of(os.getpid()) > MB
    assert size_of(2**22 + 1) == 0
