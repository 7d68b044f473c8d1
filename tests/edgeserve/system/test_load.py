"""The load of others: by made-up counters of the kernel, and on this machine."""

from __future__ import annotations

import os
import sys
import threading
import time
from pathlib import Path

import pytest

from edgeserve.system import load
from edgeserve.system.load import Neighbours, Times

TEXT = """\
cpu  600 100 300 9000 7 10 20 40 0 0
cpu0 100 10 50 3000 1 2 3 4 0 0
cpu1 200 20 60 3000 2 3 4 5 0 0
cpu10 300 70 190 3000 4 5 13 31 0 0
intr 1 2 3
ctxt 5
"""


@pytest.mark.parametrize(
    ("wanted", "nice", "ticks"),
    [({0}, False, 155), ({0}, True, 165), ({0, 1}, False, 155 + 267), ({1, 10}, False, 267 + 508)],
)
def test_busy_time_is_that_of_the_wanted_cores(wanted: set[int], nice: bool, ticks: int) -> None:
    assert load.parse_stat(TEXT, frozenset(wanted), nice=nice, tick=0.01) == pytest.approx(ticks / 100)


def test_cores_that_the_kernel_does_not_list_have_no_time() -> None:
    assert load.parse_stat(TEXT, frozenset({7}), nice=False, tick=0.01) is None


@pytest.mark.parametrize(
    ("everyone", "own", "others"), [(1.0, 1.0, 0.0), (1.5, 1.0, 0.5), (1.0, 0.0, 1.0), (0.9, 1.0, 0.0)]
)
def test_others_take_what_this_process_did_not(everyone: float, own: float, others: float) -> None:
    before, after = Times(10.0, 100.0, 50.0), Times(10.0 + load.LONG, 100.0 + everyone, 50.0 + own, running=8)
    assert load.others_between(before, after) == pytest.approx(others)


@pytest.mark.parametrize(
    ("seconds", "running", "others"),
    [(load.LONG, 0, 1.5), (60.0, 0, 0.0), (60.0, 1, 1.0), (60.0, 2, 1.5)],
)
def test_after_a_long_call_only_what_still_runs_is_beside_us(seconds: float, running: int, others: float) -> None:
    before, after = Times(0.0, 0.0, 0.0), Times(seconds, 2.5 * seconds, seconds, running)
    assert load.others_between(before, after) == pytest.approx(others)


@pytest.mark.parametrize(("running", "others"), [(0, 0.0), (1, None), (2, None)])
def test_a_load_in_a_pause_tells_nothing_of_now(running: int, others: float | None) -> None:
    """The program that worked then may be gone, and the one that runs may only pass the request on."""
    assert load.others_between(Times(0.0, 0.0, 0.0), Times(60.0, 90.0, 0.6, running)) == others


@pytest.mark.parametrize(("text", "running"), [("procs_running 3\n", 2), ("procs_running 0\n", 0), (TEXT, 0)])
def test_the_thread_that_asks_is_not_among_those_that_run(text: str, running: int) -> None:
    assert load.parse_running(text) == running


def test_two_readings_at_one_time_tell_no_load() -> None:
    assert load.others_between(Times(1.0, 5.0, 1.0), Times(1.0, 6.0, 1.0)) == 0


class Machine:
    """Two cores, whose counters a test moves on."""

    def __init__(self, folder: Path) -> None:
        self.stat = folder / "stat"
        self.now = self.own = self.python = self.busy = 0.0
        self.run(0, 0)

    def run(self, seconds: float, own: float, others: float = 0.0, python: float = 0.0) -> None:
        self.now, self.own, self.python = self.now + seconds, self.own + seconds * own, self.python + seconds * python
        self.busy += seconds * (own + others + python)
        ticks = int(self.busy * os.sysconf("SC_CLK_TCK"))
        self.stat.write_text(f"cpu0 {ticks} 0 0 0 0 0 0 0\ncpu1 0 0 0 0 0 0 0 0\n")

    def neighbours(self) -> Neighbours:
        return Neighbours(self.stat, lambda: self.now, lambda: self.own + self.python, lambda: self.python)


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1}, raising=False)
    monkeypatch.setattr(os, "getpriority", lambda which, who: 0)
    return Machine(tmp_path)


def test_the_load_is_that_since_the_last_reading(machine: Machine) -> None:
    neighbours = machine.neighbours()
    machine.run(1.0, own=1.0, others=0.75)
    assert neighbours.read() == pytest.approx(0.75)
    machine.run(60.0, own=0.0)
    assert neighbours.read() == pytest.approx(0.0)


def test_python_threads_of_this_process_are_others(machine: Machine) -> None:
    neighbours = machine.neighbours()
    machine.run(1.0, own=1.0, others=0.25, python=0.5)
    assert neighbours.read() == pytest.approx(0.75)
    assert neighbours.python == pytest.approx(0.5)
    machine.run(0.5, own=1.0, others=0.5)
    assert neighbours.read() == pytest.approx(0.5)
    assert neighbours.python == pytest.approx(0.0)


def test_a_moment_tells_nothing_and_counts_for_the_next_reading(machine: Machine) -> None:
    neighbours = machine.neighbours()
    machine.run(load.SHORTEST / 2, own=0.0, others=2.0)
    assert neighbours.read() is None
    machine.run(0.9, own=0.0)
    assert neighbours.read() == pytest.approx(0.105, abs=0.02)


def test_a_load_that_is_gone_counts_in_the_mean(machine: Machine) -> None:
    neighbours = machine.neighbours()
    machine.run(30.0, own=1.0, others=0.5)
    assert neighbours.past() == pytest.approx(0.5, abs=0.01)
    machine.run(30.0, own=1.0, others=0.5)
    assert neighbours.read() == 0, "nobody runs beside us any more"


def test_a_system_without_counters_tells_nothing(tmp_path: Path) -> None:
    neighbours = Neighbours(tmp_path / "none", lambda: 0.0, lambda: 0.0, lambda: 0.0)
    assert neighbours.read() is None
    assert neighbours.read() is None
    assert neighbours.past() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux counts in /proc/stat")
def test_work_of_this_process_is_no_neighbour() -> None:
    neighbours, begun = Neighbours(), time.monotonic()
    while time.monotonic() - begun < 1.1 * load.SHORTEST:
        pass
    others = neighbours.read()
    assert others is not None
    assert 0 <= others <= (os.cpu_count() or 1)


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells the time of a thread")
def test_python_threads_beside_the_one_that_asks_are_neighbours(machine: Machine) -> None:
    """The event loop under a flood of requests slowed each token of the chat model a hundredfold, and nothing saw it.

    Its threads wait for each other some hundred times a token, and one of them had lost its core.
    """
    neighbours = Neighbours(machine.stat, lambda: machine.now)
    spent, stop = threading.Event(), threading.Event()

    def work() -> None:
        while time.thread_time() < 0.5:
            pass
        spent.set()
        stop.wait(60)

    busy = threading.Thread(target=work)
    busy.start()
    assert spent.wait(60)
    machine.run(1.0, own=0.0, others=1.0)
    assert neighbours.read() == pytest.approx(1.0, abs=0.1)
    assert neighbours.python >= 0.5
    stop.set()
    busy.join()
