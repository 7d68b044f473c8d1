"""Accounts of engines: the expected memory before the first load, and the measured memory afterwards."""

from __future__ import annotations

import logging
from pathlib import Path

import pytest
from support.memory import FakeResident, World

from edgeserve.engine import Footprint, ModelSpec, Rung
from edgeserve.errors import EngineFailure
from edgeserve.memory.entry import LONGEST_HOT, Entry
from edgeserve.memory.peaks import Peaks
from edgeserve.units import MB


def test_a_learned_peak_comes_before_the_estimate() -> None:
    world = World(1000, FakeResident("llm", 100, 20))
    one = world.residents["llm"]
    world.peaks.learn(one.spec, Footprint(mapped=100 * MB, private=300 * MB))
    world.governor.reserve(one)
    assert world.booked() == 400 * MB
    assert world.governor.models()[0]["source"] == "learned"


def test_without_an_estimate_the_size_of_the_files_decides(tmp_path: Path) -> None:
    model = tmp_path / "model.onnx"
    with model.open("wb") as file:
        file.truncate(100 * MB)
    world = World(1000, FakeResident("asr", 1))
    one = world.residents["asr"]
    one.spec = ModelSpec("asr", "a", "e:E", {"model": model})

    def estimate() -> Footprint:
        raise EngineFailure("the file cannot be read")

    one.estimate = estimate  # type: ignore[method-assign]
    world.governor.reserve(one)
    assert world.booked() == 130 * MB
    assert world.governor.models()[0]["source"] == "heuristic"


def test_an_estimate_with_a_bug_is_logged_and_the_size_of_the_files_decides(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1000, FakeResident("asr", 0, 50))
    one = world.residents["asr"]

    def estimate() -> Footprint:
        raise ZeroDivisionError

    one.estimate = estimate  # type: ignore[method-assign]
    world.heat("asr")
    assert "fake-asr could not be estimated" in caplog.text
    assert world.booked() == 50 * MB


def test_measured_memory_is_learned_for_the_next_start() -> None:
    world = World(1000, FakeResident("llm", 100, 20, takes=45))
    one = world.heat("llm")
    assert world.peaks.find(one.spec) == Footprint(mapped=100 * MB, private=45 * MB)
    assert world.booked() == 145 * MB


def test_a_measured_figure_wins_over_the_engines_own() -> None:
    world = World(1000, FakeResident("llm", 100, 20))
    one = world.residents["llm"]
    reservation = world.governor.reserve(one)
    one.climb()
    world.governor.settle(reservation, measured=170 * MB)
    assert world.booked() == 170 * MB
    assert world.peaks.find(one.spec) == Footprint(mapped=100 * MB, private=70 * MB)


def test_an_engine_that_grows_is_measured_again() -> None:
    world = World(1000, FakeResident("llm", 100, 20))
    one = world.heat("llm")
    one.takes = Footprint(mapped=100 * MB, private=60 * MB)
    world.later(29)
    world.heat("llm")
    assert world.booked() == 120 * MB
    world.later(31)
    world.heat("llm")
    assert world.booked() == 160 * MB


def test_idle_engines_step_down_for_one_that_took_more_than_expected() -> None:
    world = World(1000, FakeResident("asr", 0, 400), FakeResident("llm", 0, 300, takes=700))
    world.heat("asr")
    world.later(60)
    world.heat("llm")
    assert world.residents["asr"].rung is Rung.WARM
    assert world.booked() <= 1000 * MB


def test_an_overdrawn_budget_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1000, FakeResident("asr", 0, 400), FakeResident("llm", 0, 300, takes=700))
    world.heat("asr").leases = 1
    world.later(60)
    with caplog.at_level(logging.WARNING):
        world.heat("llm")
    assert "fake-llm took 700 MB, more than expected; the budget of 1000 MB" in caplog.text


@pytest.mark.parametrize(
    ("climbing", "leaving", "stays"), [(0.1, 0.1, 2.0), (0.8, 0.2, 3.0), (4.0, 1.0, 15.0), (90.0, 0.0, LONGEST_HOT)]
)
def test_a_costly_switch_keeps_an_engine_hot_for_longer(climbing: float, leaving: float, stays: float) -> None:
    entry = Entry(FakeResident("llm", 100, 20), leaving_seconds=leaving)
    entry.begin_hot(1000.0, climbing, least=2.0)
    assert entry.hot_at == 1000.0
    assert entry.hot_until == pytest.approx(1000.0 + stays)


def test_an_estimate_that_comes_late_replaces_no_measured_figure() -> None:
    """The governor estimates all engines at its start, beside the first requests."""
    one = FakeResident("llm", 0, 100)
    entry = Entry(one)

    def estimate() -> Footprint:
        entry.measure(Footprint(private=70 * MB))  # on the engine's own thread
        return one.says

    one.estimate = estimate  # type: ignore[method-assign]
    entry.expect(Peaks())
    assert (entry.hot, entry.source) == (Footprint(private=70 * MB), "measured")
