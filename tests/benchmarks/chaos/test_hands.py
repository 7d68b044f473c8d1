"""The hand carries events out, undoes them, and says what found nobody."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks.chaos import events, fakes
from benchmarks.chaos.events import Event
from benchmarks.chaos.hands import Hands
from benchmarks.chaos.house import House
from benchmarks.process import ServerProcess

SLEEP = "import sys; sys.stdin.read()"


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    """A house whose server is a process without children."""
    with subprocess.Popen([sys.executable, "-c", SLEEP], stdin=subprocess.PIPE) as process:
        yield House(tmp_path, fakes.prepare(tmp_path), ServerProcess(process, 1, 0.0), "token", None, None)
        process.kill()


def carried_out(house: House, *schedule: Event) -> Hands:
    hands = Hands(house, schedule, time.perf_counter)
    hands.run()
    assert hands.failures == []
    return hands


@pytest.mark.parametrize(("kind", "size"), [(events.CUT, 524_292), (events.REPLACE, 1_048_584)])
def test_a_file_is_another_one_and_then_itself_again(house: House, kind: str, size: int) -> None:
    path = house.form.files["llm"]
    whole, inode = path.read_bytes(), path.stat().st_ino
    hands = Hands(house, [Event(0.0, kind, "llm", 3600.0)], time.perf_counter)
    running = threading.Thread(target=hands.run)
    running.start()
    while path.stat().st_size == len(whole) and path.stat().st_ino == inode:
        time.sleep(0.001)
    assert path.stat().st_size == size
    assert path.read_bytes() != whole
    hands.stop()
    running.join(10)
    assert (path.read_bytes(), path.stat().st_ino) == (whole, inode)
    (happened,) = hands.happened
    assert (happened.kind, happened.jobs) == (kind, ("llm",))
    assert sorted(one.name for one in house.folder.iterdir()) == sorted(f"{job}.model" for job in house.form.files)


@pytest.mark.slow
def test_two_events_at_one_file_exclude_each_other(house: House) -> None:
    first, second = Event(0.0, events.CUT, "llm", 0.2), Event(0.0, events.REPLACE, "llm", 0.0)
    hands = carried_out(house, first, second)
    assert [one.kind for one in hands.happened] == [events.CUT]
    assert hands.passed_over == ["replaced file at 0 s: the last one is not over"]


def test_events_without_anybody_to_hit_are_passed_over(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("benchmarks.chaos.hands.WORKER_SECONDS", 0.0)
    kinds = (events.KILL, events.FORKS, events.LIMIT, events.DISK)
    hands = carried_out(house, *(Event(0.0, kind, "llm", 0.0) for kind in kinds))
    assert hands.happened == []
    assert len(hands.passed_over) == 4


def test_a_fault_of_the_hand_is_told(house: House) -> None:
    house.form.files["llm"].unlink()
    hands = Hands(house, [Event(0.0, events.CUT, "llm", 0.0)], time.perf_counter)
    hands.run()
    assert [type(one) for one in hands.failures] == [FileNotFoundError]
