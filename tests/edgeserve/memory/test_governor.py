"""The governor as a whole: optional memory, the off switch, construction, and the cost of a request."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.gates import make_gate
from support.memory import FakeResident, World, world_at

from edgeserve.engine import Rung
from edgeserve.jobs import JOBS
from edgeserve.memory.governor import Governor, OpenGovernor, make_governor
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.system.readings import SystemPressure
from edgeserve.units import MB


@pytest.mark.parametrize(("percent", "may"), [(10, True), (79, True), (80, False), (95, False)])
def test_optional_memory_is_allowed_below_high_pressure_only(percent: int, may: bool) -> None:
    world = world_at(percent, FakeResident("llm", 0, 10))
    with world.governor.optional_memory() as free:
        assert free is may


def test_optional_memory_is_not_allowed_while_others_are_measured() -> None:
    world = world_at(10, FakeResident("llm", 0, 10), FakeResident("asr", 0, 10))
    reservation = world.governor.reserve(world.residents["asr"])
    with world.governor.optional_memory() as free:
        assert free is False
    world.governor.release(reservation)
    mark = world.governor.accounts.begin_change()
    with world.governor.optional_memory() as free:
        assert free is True
        assert not world.governor.accounts.unchanged_since(mark)


def test_the_systems_own_pressure_level_counts() -> None:
    world = world_at(10, FakeResident("asr", 0, 10))
    world.probe.more = {"system_pressure": SystemPressure.CRITICAL}
    assert world.governor.health()["pressure"] == "CRITICAL"


def test_an_idle_server_returns_its_heap_and_drops_its_code() -> None:
    world = World(1000)
    world.governor.release_idle_heap()
    assert (world.trims, world.code_drops) == (1, 1)


# The off switch


def test_switched_off_the_governor_admits_all_and_still_reports() -> None:
    world = World(100, FakeResident("llm", 5000, 900), policy=MemoryPolicy(enabled=False), kind=OpenGovernor)
    llm = world.heat("llm")
    world.governor.check()
    world.governor.relieve()
    assert llm.rung is Rung.HOT
    assert world.governor.stats()["models_loaded"] == 1
    assert world.governor.step_down(llm, Rung.WARM, "idle") is not None


def test_the_setting_chooses_the_governor(tmp_path: Path) -> None:
    assert type(make_governor(MemoryPolicy(), peaks=tmp_path / "memory.json")) is Governor
    assert type(make_governor(MemoryPolicy(enabled=False))) is OpenGovernor


def test_a_simulated_machine_reaches_the_budget() -> None:
    stats = make_governor(MemoryPolicy(override_memory_mb=512)).stats()
    assert stats["total_mb"] == 512
    assert 0 < int(str(stats["budget_usable_mb"])) <= 384, "a quarter is the system's"


@pytest.mark.parametrize("interval", [1.0, 0.0], ids=["a reading of this second", "an old reading"])
def test_a_request_of_a_hot_engine_reads_no_memory(interval: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """A reading of the system takes twenty times as long as a reservation.

    It waits for the kernel while a new worker maps its model on a full box: then the steps of all answers did, too.
    """
    governor = make_governor(MemoryPolicy())
    gates = [make_gate(job, governor) for job in JOBS]
    for gate in gates:
        governor.adopt(gate)
        gate.preload()
    governor.probe.read_quick()
    monkeypatch.setattr(governor.probe, "_loop", lambda then: None)
    governor.probe.start()

    def read() -> None:
        raise AssertionError("memory is read")

    monkeypatch.setattr(governor.probe, "read_quick", read)
    monkeypatch.setattr(governor.probe, "read", read)
    governor.probe.interval = interval
    governor.release(governor.reserve(gates[0]))
    governor.check()
    assert governor.gauge.latest().readings is governor.probe.known()
    assert governor.health()["used_percent"] == round(governor.gauge.latest().percent, 1)
    assert governor.room(gates[0].spec) > 0


def test_an_engine_that_the_system_killed_is_expected_to_be_larger() -> None:
    chat = FakeResident("llm", 0, 100)
    governor = world_at(10, chat).governor
    for expected in (125, 156, 195, 200, 200):
        governor.outgrew(chat.spec)
        found = governor.accounts["llm"].hot
        assert found is not None
        assert found.private // MB == expected
    learned = governor.accounts.peaks.find(chat.spec)
    assert learned is not None
    assert learned.private == 200 * MB
