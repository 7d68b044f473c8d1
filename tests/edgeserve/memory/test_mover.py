"""Verified steps down: bytes that came back, compared with the expected bytes."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import pytest
from support.cases import each
from support.memory import FakeResident, World, readings, world_at

from edgeserve.engine import Footprint, Rung
from edgeserve.errors import EngineFailure
from edgeserve.memory.mover import freed
from edgeserve.system.readings import Accelerator, ProcessMemory
from edgeserve.units import GB, MB


def test_a_step_is_recorded_with_both_figures(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1000, FakeResident("asr", 100, 50, warm=10))
    asr = world.heat("asr")
    with caplog.at_level(logging.INFO):
        record = world.governor.step_down(asr, Rung.WARM, "idle")
    assert record is not None
    assert (record.expected, record.freed, record.exact) == (140 * MB, 140 * MB, True)
    assert (record.before, record.after, record.action) == (Rung.HOT, Rung.WARM, "offloaded")
    assert record.timestamp == 1_704_067_200.0 + world.clock.now
    assert caplog.records[-1].levelno == logging.INFO
    assert "Offloaded asr:fake-asr from hot to warm, idle (freed 140.0 MB of 140.0 MB expected)" in caplog.text
    assert world.booked() == 10 * MB


def test_two_rungs_at_once() -> None:
    world = World(1000, FakeResident("asr", 100, 50, warm=10))
    record = world.governor.step_down(world.heat("asr"), Rung.COLD, "requested")
    assert record is not None
    assert (record.action, record.expected) == ("unloaded", 150 * MB)
    assert world.booked() == 0


@pytest.mark.parametrize(("kept", "warned"), [(9, False), (11, True)])
def test_less_than_ninety_percent_logs_a_warning(kept: int, warned: bool, caplog: pytest.LogCaptureFixture) -> None:
    world = World(1000, FakeResident("asr", 0, 100))
    asr = world.heat("asr")
    asr.before_step = lambda: setattr(world.probe, "base", kept * MB)
    with caplog.at_level(logging.INFO):
        record = world.governor.step_down(asr, Rung.COLD, "idle")
    assert record is not None
    assert record.freed == (100 - kept) * MB
    assert (caplog.records[-1].levelno == logging.WARNING) is warned


def test_memory_that_stays_behind_is_not_needed_again() -> None:
    """The first load of a runtime costs more than the next: imports and thread pools never come back."""
    world = World(170, FakeResident("asr", 0, 100))
    asr = world.heat("asr")
    asr.before_step = lambda: setattr(world.probe, "base", 40 * MB)
    world.governor.step_down(asr, Rung.COLD, "idle")
    asr.before_step = lambda: None
    asr.takes = type(asr.takes)(private=60 * MB)
    world.heat("asr")
    assert world.booked() == 60 * MB, "100 MB more than the 40 that stayed would not have fitted"


@pytest.mark.parametrize("beside", [-5, 13])
def test_memory_beside_an_engine_is_expected_with_the_next_step(beside: int) -> None:
    """The pages of libraries go with an engine that does not count them; pages shared with others stay."""
    world = World(1000, FakeResident("asr", 0, 100))
    world.probe.base = 100 * MB
    expected = []
    for _ in range(3):
        asr = world.heat("asr")
        asr.before_step = lambda: setattr(world.probe, "base", world.probe.base - beside * MB)
        record = world.governor.step_down(asr, Rung.COLD, "idle")
        assert record is not None
        expected.append(record.expected)
    assert expected == [100 * MB, (100 + beside) * MB, (100 + beside) * MB]


@pytest.mark.parametrize(("next_takes", "expected"), [(110, 123), (90, 103), (60, 60), (200, 200)])
def test_a_step_predicts_only_one_of_about_its_size(next_takes: int, expected: int) -> None:
    world = World(1000, FakeResident("asr", 0, 100))
    world.probe.base = 100 * MB
    asr = world.heat("asr")
    asr.before_step = lambda: setattr(world.probe, "base", world.probe.base - 13 * MB)
    world.governor.step_down(asr, Rung.COLD, "idle")
    asr.before_step = lambda: None
    asr.takes = type(asr.takes)(private=next_takes * MB)
    record = world.governor.step_down(world.heat("asr"), Rung.COLD, "idle")
    assert record is not None
    assert record.expected == expected * MB


def test_an_inexact_step_predicts_nothing() -> None:
    world = World(1000, FakeResident("asr", 0, 100), FakeResident("llm", 0, 100, 5))
    asr = world.heat("asr")
    world.heat("llm")
    asr.before_step = lambda: setattr(world.probe, "base", 90 * MB)
    reservation = world.governor.reserve(world.residents["llm"])
    world.governor.step_down(asr, Rung.COLD, "idle")
    world.governor.release(reservation)
    asr.before_step = lambda: None
    record = world.governor.step_down(world.heat("asr"), Rung.COLD, "idle")
    assert record is not None
    assert record.expected == 100 * MB


@each(("before", "during"), [(0, 64), (64, 0), (30, 30), (0, 3)])
def test_an_upload_beside_a_step_down_is_no_memory_that_the_engine_kept(before: int, during: int) -> None:
    """The engine was expected to take so much less: others were let in beside it, and did not fit."""
    world = World(1000, FakeResident("asr", 0, 100))
    asr, accounts = world.heat("asr"), world.governor.accounts
    accounts.traffic.came = world.probe.base = before * MB

    def upload() -> None:
        accounts.traffic.gone += before * MB
        accounts.traffic.came += during * MB
        world.probe.base = during * MB

    asr.before_step = upload
    record = world.governor.step_down(asr, Rung.COLD, "idle")
    assert record is not None
    assert not record.exact
    assert accounts["asr"].hot == Footprint(private=100 * MB)
    asr.before_step = lambda: None
    accounts.traffic.gone, world.probe.base = accounts.traffic.came, 0
    record = world.governor.step_down(world.heat("asr"), Rung.COLD, "idle")
    assert record is not None
    assert (record.exact, record.expected) == (True, 100 * MB)


def test_a_step_that_leaves_memory_behind_is_a_warning_each_time(caplog: pytest.LogCaptureFixture) -> None:
    """An earlier step that kept memory is no excuse for the next one."""
    world = World(1000, FakeResident("asr", 0, 100))
    for _ in range(2):
        asr = world.heat("asr")
        asr.before_step = lambda: setattr(world.probe, "base", world.probe.base + 15 * MB)
        with caplog.at_level(logging.WARNING):
            world.governor.step_down(asr, Rung.COLD, "idle")
    assert len(caplog.records) == 2


def test_two_missing_megabytes_log_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1000, FakeResident("tts", 0, 3))
    tts = world.heat("tts")
    tts.before_step = lambda: setattr(world.probe, "base", 2 * MB)
    with caplog.at_level(logging.WARNING):
        world.governor.step_down(tts, Rung.COLD, "idle")
    assert caplog.records == []


def test_an_inexact_figure_logs_no_warning(caplog: pytest.LogCaptureFixture) -> None:
    world = World(1000, FakeResident("asr", 0, 100), FakeResident("llm", 0, 100, 5))
    asr = world.heat("asr")
    world.heat("llm")
    reservation = world.governor.reserve(world.residents["llm"])
    asr.before_step = lambda: setattr(world.probe, "base", 90 * MB)
    with caplog.at_level(logging.WARNING):
        record = world.governor.step_down(asr, Rung.COLD, "idle")
    world.governor.release(reservation)
    assert record is not None
    assert not record.exact
    assert caplog.records == []


@pytest.mark.parametrize("error", [EngineFailure("park failed"), OSError("the driver is gone"), RuntimeError("a bug")])
def test_an_engine_that_fails_to_step_down_is_logged_and_others_step_down(
    error: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    world = world_at(95, FakeResident("asr", 0, 10), FakeResident("tts", 0, 10))
    asr, tts = world.residents["asr"], world.residents["tts"]
    asr.last_used = 10.0
    world.later(60)

    def fail() -> None:
        raise error

    asr.before_step = fail
    world.governor.relieve()
    assert (asr.rung, tts.rung) == (Rung.HOT, Rung.COLD)
    assert "fake-asr could not be moved down to cold" in caplog.text
    assert [record["model_type"] for record in world.governor.evictions()] == ["tts"]
    asr.before_step = lambda: None
    assert world.governor.step_down(asr, Rung.COLD, "requested") is not None, "no mark of the failed step is left"


def test_nothing_is_recorded_when_nothing_moved() -> None:
    world = World(1000, FakeResident("asr", 0, 100))
    asr = world.residents["asr"]
    assert world.governor.step_down(asr, Rung.WARM, "idle") is None
    world.heat("asr").leases = 1
    assert world.governor.step_down(asr, Rung.WARM, "idle") is None
    assert world.governor.evictions() == []


def test_an_accelerators_memory_counts_as_freed() -> None:
    before = readings(accelerator=Accelerator("cuda", total=8 * GB, free=2 * GB))
    after = readings(accelerator=Accelerator("cuda", total=8 * GB, free=5 * GB))
    assert freed(before, after) == 3 * GB
    unified = Accelerator("metal", total=8 * GB, free=2 * GB, unified=True)
    held = readings(anon=3 * GB, accelerator=unified)
    assert freed(held, held) == 0
    assert freed(held, readings(anon=GB, accelerator=unified)) == 2 * GB
    less = dataclasses.replace(unified, free=5 * GB)
    assert freed(held, readings(anon=3 * GB, accelerator=less)) == 3 * GB, "the process does not count the GPU's"
    assert freed(held, readings(anon=0, accelerator=less)) == 3 * GB, "or it does"
    told_first = readings(anon=3 * GB, accelerator=Accelerator(recommended=8 * GB, unified=True))
    assert freed(told_first, readings(anon=3 * GB, accelerator=less)) == 0
    grown = type(before)(0.0, GB, GB, ProcessMemory(total=5))
    assert freed(readings(), grown) == 0


def test_a_step_counts_when_the_engine_is_up_again_at_once() -> None:
    world = World(1000, FakeResident("asr", 100, 50, warm=10))
    asr = world.heat("asr")
    asr.after_step = lambda: setattr(asr, "rung", Rung.HOT)
    record = world.governor.step_down(asr, Rung.WARM, "idle")
    assert record is not None
    assert (record.before, record.after, record.expected) == (Rung.HOT, Rung.WARM, 140 * MB)
    asr.rung = Rung.WARM
    assert world.booked() == 10 * MB, "what it held when it was up again is not what it holds on warm"


def test_a_request_before_the_second_reading_makes_the_figure_inexact() -> None:
    world = World(1000, FakeResident("asr", 0, 100))
    asr = world.heat("asr")
    asr.after_step = lambda: world.heat("asr")
    record = world.governor.step_down(asr, Rung.COLD, "idle")
    assert record is not None
    assert (record.freed, record.exact) == (0, False)
    assert world.booked() == 100 * MB, "nothing stayed behind: it was needed again"


def test_two_threads_that_move_one_engine_make_one_step() -> None:
    world = World(1000, FakeResident("asr", 0, 100))
    asr = world.heat("asr")
    asr.before_step = lambda: setattr(asr, "rung", Rung.COLD)
    assert world.governor.step_down(asr, Rung.COLD, "memory_pressure") is None
    assert world.governor.evictions() == []


def test_shared_weights_of_another_hot_engine_are_not_expected_back() -> None:
    llm, vision = FakeResident("llm", 400, 100), FakeResident("vision", 400, 150)
    for one in (llm, vision):
        one.spec = dataclasses.replace(one.spec, files={"model": Path("one.gguf")})
    world = World(2000, llm, vision)
    world.heat("llm")
    world.heat("vision")
    world.later(60)
    record = world.governor.step_down(vision, Rung.WARM, "idle")
    assert record is not None
    assert record.expected == 150 * MB
    record = world.governor.step_down(llm, Rung.WARM, "idle")
    assert record is not None
    assert record.expected == 500 * MB
