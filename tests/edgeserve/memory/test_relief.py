"""Relief of pressure: rounds by level, checks while an answer is made, and dropped prefix caches."""

from __future__ import annotations

import contextlib

import pytest
from support.memory import POLICY, FakeResident, ThriftyResident, World, world_at

from edgeserve.engine import Rung
from edgeserve.errors import DoesNotFit, MemoryPressure
from edgeserve.units import MB


@pytest.mark.parametrize(
    ("percent", "idle", "rung"),
    [
        (59, 1000, Rung.HOT),
        (60, 119, Rung.HOT),
        (60, 120, Rung.WARM),
        (80, 29, Rung.HOT),
        (80, 30, Rung.WARM),
        (90, 4, Rung.HOT),
        (90, 5, Rung.COLD),
    ],
)
def test_a_round_moves_idle_engines_by_level(percent: int, idle: int, rung: Rung) -> None:
    world = world_at(percent, FakeResident("asr", 0, 10))
    world.later(idle)
    world.governor.relieve()
    assert world.residents["asr"].rung is rung


def test_the_levels_are_logged_as_in_the_reference(caplog: pytest.LogCaptureFixture) -> None:
    world = world_at(85, FakeResident("asr", 0, 10))
    world.later(60)
    world.governor.relieve()
    assert "HIGH memory pressure: 85.0%. Offloading idle models." in caplog.text
    world.probe.base = 941 * MB
    world.governor.relieve()
    assert "CRITICAL memory pressure! Usage: 94.1%. Forcing aggressive eviction." in caplog.text


def test_a_check_below_critical_does_nothing() -> None:
    world = world_at(89, FakeResident("asr", 0, 10))
    world.later(60)
    world.governor.check()
    assert world.residents["asr"].rung is Rung.HOT
    assert world.trims == 0


def test_an_old_reading_alone_stops_no_answer() -> None:
    world = world_at(95, FakeResident("llm", 0, 10))
    old = world.probe.read()
    world.probe.base = 100 * MB
    world.probe.latest = lambda: old
    world.governor.check()
    assert world.governor.fragmentation()["num_alloc_retries"] == 0


def test_at_critical_idle_engines_make_room_and_the_answer_goes_on() -> None:
    world = world_at(95, FakeResident("llm", 0, 10), FakeResident("asr", 0, 100))
    world.later(60)
    world.residents["llm"].leases = 1
    world.governor.check()
    assert world.residents["asr"].rung is Rung.COLD
    assert world.residents["llm"].rung is Rung.HOT
    assert world.trims == 1
    assert world.governor.fragmentation()["num_alloc_retries"] == 1


def test_at_critical_with_nothing_left_the_answer_fails_with_the_figures() -> None:
    world = world_at(95, FakeResident("llm", 0, 10))
    world.residents["llm"].leases = 1
    with pytest.raises(MemoryPressure, match=r"950 MB are used, 95% of the budget of 1000 MB") as caught:
        world.governor.check()
    assert caught.value.retry_after == POLICY.pressure_interval
    assert world.governor.fragmentation()["num_ooms"] == 1


def test_an_admitted_answer_is_never_stopped_by_its_own_size() -> None:
    """The plan keeps private memory below CRITICAL, so that an admitted answer passes its checks."""
    for private in range(880, 905):
        world = World(1000, FakeResident("llm", 50, private))
        with contextlib.suppress(DoesNotFit):
            world.heat("llm").leases = 1
            world.governor.check()


def test_full_machines_drop_idle_prefix_caches() -> None:
    llm = ThriftyResident("llm", 0, 10, cached=1)
    world = World(1000, llm)
    world.heat("llm")
    world.later(60)
    world.probe.others = 680 * MB
    world.governor.relieve()
    assert llm.shed_kinds == []
    world.probe.others = 690 * MB
    world.governor.relieve()
    assert llm.shed_kinds == ["prefix_cache"]
    assert llm.rung is Rung.HOT


def test_the_prefix_cache_of_a_long_idle_engine_is_dropped() -> None:
    llm = ThriftyResident("llm", 0, 10, cached=5)
    world = World(1000, llm)
    world.heat("llm")
    world.governor.drop_prefix_cache(llm)
    assert llm.cached == 0
    assert llm.rung is Rung.HOT
