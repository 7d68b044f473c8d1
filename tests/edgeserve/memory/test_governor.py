"""The door as a whole: pressure and its loop, checks while an answer is made, the off switch, and what it costs."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from support.gates import make_gate
from support.memory import POLICY, FakeResident, ThriftyResident, World, world_at

from edgeserve.engine import JOBS, Footprint, Rung
from edgeserve.errors import DoesNotFit, MemoryPressure
from edgeserve.memory.governor import Governor, OpenGovernor, make_governor
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.system.readings import SystemPressure
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
def test_a_round_of_the_pressure_loop(percent: int, idle: int, rung: Rung) -> None:
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


@pytest.mark.parametrize(("percent", "may"), [(10, True), (79, True), (80, False), (95, False)])
def test_memory_that_nobody_needs_is_taken_below_high_pressure_only(percent: int, may: bool) -> None:
    world = world_at(percent, FakeResident("llm", 0, 10))
    with world.governor.optional_memory() as free:
        assert free is may


def test_memory_that_nobody_needs_is_not_taken_while_others_are_measured() -> None:
    world = world_at(10, FakeResident("llm", 0, 10), FakeResident("asr", 0, 10))
    reservation = world.governor.reserve(world.residents["asr"])
    with world.governor.optional_memory() as free:
        assert free is False
    world.governor.release(reservation)
    mark = world.governor.accounts.begin_change()
    with world.governor.optional_memory() as free:
        assert free is True
        assert not world.governor.accounts.unchanged_since(mark)


def test_an_old_reading_alone_stops_nobody() -> None:
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


def test_at_critical_with_nothing_left_the_answer_ends_with_the_figures() -> None:
    world = world_at(95, FakeResident("llm", 0, 10))
    world.residents["llm"].leases = 1
    with pytest.raises(MemoryPressure, match=r"950 MB are used, 95% of the budget of 1000 MB") as caught:
        world.governor.check()
    assert caught.value.retry_after == POLICY.pressure_interval
    assert world.governor.fragmentation()["num_ooms"] == 1


def test_what_was_admitted_is_never_stopped_by_its_own_size() -> None:
    """The plan keeps what cannot be taken back below CRITICAL, so that an admitted answer passes its checks."""
    for private in range(880, 905):
        world = World(1000, FakeResident("llm", 50, private))
        with contextlib.suppress(DoesNotFit):
            world.heat("llm").leases = 1
            world.governor.check()


def test_the_systems_own_alarm_counts() -> None:
    world = world_at(10, FakeResident("asr", 0, 10))
    world.probe.more = {"system_pressure": SystemPressure.CRITICAL}
    assert world.governor.health()["pressure"] == "CRITICAL"


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


def test_a_prefix_cache_goes_when_its_engine_is_long_idle_but_not_while_it_works() -> None:
    llm = ThriftyResident("llm", 0, 10, cached=5)
    world = World(1000, llm)
    world.heat("llm")
    world.governor.drop_prefix_cache(llm)
    assert llm.cached == 0
    assert llm.rung is Rung.HOT


def test_at_rest_the_heap_and_the_code_go() -> None:
    world = World(1000)
    world.governor.release_idle_heap()
    assert (world.trims, world.code_drops) == (1, 1)


def test_what_engines_will_take_is_known_before_the_first_request() -> None:
    world = World(1000, FakeResident("asr", 100, 10))
    known = threading.Event()
    resident = world.residents["asr"]
    estimate = resident.estimate

    def told() -> Footprint:
        known.set()
        return estimate()

    resident.estimate = told  # type: ignore[method-assign]
    world.governor.start()
    assert known.wait(10)
    world.governor.stop()
    assert world.governor.accounts["asr"].source == "estimate"


def test_the_loop_relieves_and_ends() -> None:
    policy = MemoryPolicy(pressure_interval=0.05, os_reserve_gb=0, available_margin_gb=0, max_percent=1.0)
    world = World(1000, FakeResident("asr", 0, 10), policy=policy)
    asr = world.heat("asr")
    world.later(60)
    moved = threading.Event()
    asr.before_step = moved.set
    world.probe.base = 950 * MB
    before = set(threading.enumerate())
    world.governor.start()
    assert moved.wait(10)
    world.governor.stop()
    assert set(threading.enumerate()) <= before


def test_a_reservation_under_pressure_wakes_the_loop() -> None:
    world = World(1000, FakeResident("asr", 0, 10), FakeResident("tts", 0, 1))
    asr = world.heat("asr")
    world.heat("tts")
    world.later(60)
    moved = threading.Event()
    asr.before_step = moved.set
    world.governor.start()
    world.probe.base = 850 * MB
    assert not moved.is_set()
    world.governor.release(world.governor.reserve(world.residents["tts"]))
    assert moved.wait(10), "not only after the interval of 15 s"
    world.governor.stop()


# The off switch


def test_switched_off_it_admits_all_and_still_tells() -> None:
    world = World(100, FakeResident("llm", 5000, 900), policy=MemoryPolicy(enabled=False), kind=OpenGovernor)
    llm = world.heat("llm")
    world.governor.check()
    world.governor.relieve()
    assert llm.rung is Rung.HOT
    assert world.governor.stats()["models_loaded"] == 1
    assert world.governor.step_down(llm, Rung.WARM, "idle") is not None


def test_the_switch_chooses_the_governor(tmp_path: Path) -> None:
    assert type(make_governor(MemoryPolicy(), peaks=tmp_path / "memory.json")) is Governor
    assert type(make_governor(MemoryPolicy(enabled=False))) is OpenGovernor


def test_a_simulated_machine_reaches_the_budget() -> None:
    stats = make_governor(MemoryPolicy(override_memory_mb=512)).stats()
    assert stats["total_mb"] == 512
    assert 0 < int(str(stats["budget_usable_mb"])) <= 384, "a quarter is the system's"


def test_the_way_of_a_hot_engine_reads_nothing() -> None:
    """Measured: 26 µs to reserve and 0.4 µs to check, where one reading of the system takes 500."""
    governor = make_governor(MemoryPolicy())
    gates = [make_gate(job, governor) for job in JOBS]
    for gate in gates:
        governor.adopt(gate)
        gate.preload()

    def fastest(action: Callable[[], object]) -> float:
        best = 1.0
        for _ in range(100):
            started = time.perf_counter()
            action()
            best = min(best, time.perf_counter() - started)
        return best

    reading = fastest(governor.probe.read_quick)
    reserving = fastest(lambda: governor.release(governor.reserve(gates[0])))
    assert reserving < reading / 3
    assert fastest(governor.check) < reserving / 3
