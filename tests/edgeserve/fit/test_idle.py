"""Measurements of an idle server: when they begin, what ends them, and what they leave."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from support.gates import Clock
from support.server import until

from edgeserve.engine import ModelSpec
from edgeserve.errors import EngineFailure
from edgeserve.fit import tuned
from edgeserve.fit.idle import COPIES, FIRST_WAIT, IdleTuning
from edgeserve.fit.tuned import Form, Tuned
from edgeserve.jobs import INFO
from edgeserve.models.stored import StoredModel
from edgeserve.units import GB

BEST = {"repack": "on"}


class Trials:
    """Measurements that last until they are told to end, with what they are to find."""

    def __init__(self, *, lasting: bool = False) -> None:
        self.names: list[str] = []
        self.go_on = threading.Event()
        if not lasting:
            self.go_on.set()
        self.others = 0.0
        self.error: Exception | None = None

    def __call__(self, model: StoredModel, run: Any, wanted: Callable[[], bool]) -> Tuned | None:
        self.names.append(model.name)
        until(lambda: self.go_on.is_set() or not wanted())
        if self.error is not None:
            raise self.error
        return tuned.record(model.size_bytes, BEST, (Form(BEST, 0.1, 1.0, 1.0),), self.others) if wanted() else None


class Idle:
    """A server with two models."""

    def __init__(self, folder: Path, trials: Any) -> None:
        self.specs = [self._spec(folder, name) for name in ("one", "two")]
        self.room, self.battery, self.clock = 8 * GB, False, Clock()
        self.tuning = IdleTuning(lambda: self.specs, lambda spec: self.room, lambda: self.battery, trials, self.clock)

    def _spec(self, folder: Path, name: str) -> ModelSpec:
        path = folder / f"{name}.gguf"
        path.write_bytes(bytes(10))
        files = {"model": path, "tuned": folder / "tuned" / f"{name}.json"}
        return ModelSpec("llm", name, INFO["llm"].engine, files)

    def rest(self, seconds: float = FIRST_WAIT + 1) -> None:
        """Nobody asks for a while, and what then begins ends."""
        self.clock.now += seconds
        self.tuning.look()
        until(lambda: not self.tuning.running)

    def records(self) -> list[str]:
        return [one.name for one in self.specs if tuned.read(one.files["tuned"], one.files["model"]) is not None]


@pytest.fixture
def trials() -> Trials:
    return Trials()


@pytest.fixture
def idle(tmp_path: Path, trials: Trials) -> Idle:
    return Idle(tmp_path, trials)


def test_each_model_is_measured_once(idle: Idle, trials: Trials) -> None:
    idle.rest(FIRST_WAIT - 1)
    assert trials.names == []
    idle.rest(2)
    assert trials.names == idle.records() == ["one", "two"]
    for _ in range(3):
        idle.tuning.stop()
        idle.rest(10 * FIRST_WAIT)
    assert trials.names == ["one", "two"]


def test_another_file_is_measured_again(idle: Idle, trials: Trials) -> None:
    idle.rest()
    idle.specs[1].files["model"].write_bytes(bytes(11))
    idle.tuning.stop()
    idle.rest()
    assert trials.names == ["one", "two", "two"]


def test_a_model_that_was_removed_holds_up_no_other(idle: Idle, trials: Trials) -> None:
    idle.specs[0].files["model"].unlink()
    idle.rest()
    assert (trials.names, idle.records()) == (["two"], ["two"])


def test_nothing_is_measured_on_battery_or_without_memory(idle: Idle, trials: Trials) -> None:
    idle.battery = True
    idle.rest()
    idle.battery, idle.room = False, COPIES * 10
    idle.tuning.stop()
    idle.rest()
    assert trials.names == []


def test_a_request_ends_it_at_once_and_doubles_the_wait(tmp_path: Path) -> None:
    trials = Trials(lasting=True)
    idle = Idle(tmp_path, trials)
    idle.clock.now += FIRST_WAIT + 1
    idle.tuning.look()
    until(lambda: trials.names == ["one"])
    idle.tuning.stop()
    until(lambda: not idle.tuning.running)
    assert (trials.names, idle.records()) == (["one"], [])
    trials.go_on.set()
    idle.rest(FIRST_WAIT + 1)
    assert idle.records() == []
    idle.rest(FIRST_WAIT)
    assert idle.records() == ["one", "two"]


def test_a_disturbed_measurement_is_not_kept_and_a_failed_one_not_repeated(idle: Idle, trials: Trials) -> None:
    trials.others = 2 * tuned.BUSY
    idle.rest()
    assert (idle.records(), trials.names) == ([], ["one", "two"])
    trials.error = EngineFailure("the process ended")
    for _ in range(2):
        idle.tuning.stop()
        idle.rest(100 * FIRST_WAIT)
    assert (idle.records(), trials.names) == ([], ["one", "two", "one", "two"])


def test_its_process_is_killed_by_a_request(tmp_path: Path) -> None:
    """A real process, which would go on for ten minutes."""
    code = "import time\nprint('ready', flush=True)\ntime.sleep(600)"
    codes: list[int] = []
    ready = threading.Event()

    def trial(model: StoredModel, run: Any, wanted: Callable[[], bool]) -> None:
        lines: Iterator[str]
        try:
            with run([sys.executable, "-c", code]) as lines:
                assert next(lines).strip() == "ready"
                ready.set()
                assert list(lines) == []
        except subprocess.CalledProcessError as error:
            codes.append(error.returncode)

    idle = Idle(tmp_path, trial)
    idle.clock.now += FIRST_WAIT + 1
    idle.tuning.look()
    assert ready.wait(30)
    idle.tuning.stop()
    until(lambda: not idle.tuning.running)
    assert codes == [-9]


def test_a_process_begun_after_the_request_is_killed_too(tmp_path: Path) -> None:
    ended: list[bool] = []

    def trial(model: StoredModel, run: Any, wanted: Callable[[], bool]) -> None:
        idle.tuning.stop()
        try:
            with run([sys.executable, "-c", "import time; time.sleep(600)"]) as lines:
                list(lines)
        except subprocess.CalledProcessError:
            ended.append(True)

    idle = Idle(tmp_path, trial)
    idle.rest()
    assert ended == [True]
