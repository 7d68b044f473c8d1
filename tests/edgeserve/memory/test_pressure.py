"""Pressure levels, and the engines that step down at each."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.memory import readings

from edgeserve.engine import Rung
from edgeserve.jobs import JOBS, Job
from edgeserve.memory.amount import Amount
from edgeserve.memory.budget import Budget, budget
from edgeserve.memory.occupancy import Occupancy
from edgeserve.memory.plan import Step
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.memory.pressure import Level, level_of, relief, used_percent
from edgeserve.system.readings import Accelerator, ProcessMemory, Stall, SystemPressure
from edgeserve.units import GB

POLICY = MemoryPolicy()
NOW = 1000.0


@each(
    ("percent", "level"),
    [
        (0, Level.LOW),
        (59.9, Level.LOW),
        (60, Level.MODERATE),
        (79.9, Level.MODERATE),
        (80, Level.HIGH),
        (89.9, Level.HIGH),
        (90, Level.CRITICAL),
        (250, Level.CRITICAL),
    ],
)
def test_the_levels(percent: float, level: Level) -> None:
    assert level_of(percent, readings(), POLICY) is level


@pytest.mark.parametrize(
    ("more", "level"),
    [
        ({"system_pressure": SystemPressure.WARN}, Level.HIGH),
        ({"system_pressure": SystemPressure.CRITICAL}, Level.CRITICAL),
        ({"stall": Stall(some=50, full=9.9)}, Level.LOW),
        ({"stall": Stall(some=50, full=10)}, Level.HIGH),
    ],
)
def test_the_system_can_raise_the_level(more: dict[str, Any], level: Level) -> None:
    assert level_of(10, readings(**more), POLICY) is level
    assert level_of(95, readings(**more), POLICY) is Level.CRITICAL


def test_mapped_memory_causes_no_pressure() -> None:
    machine = readings(16 * GB, available=13 * GB)
    machine = type(machine)(0.0, 16 * GB, 13 * GB, ProcessMemory(anon=3 * GB, file=8 * GB, total=11 * GB))
    assert used_percent(machine, budget(machine, POLICY)) == 25.0


def test_unified_device_memory_causes_pressure() -> None:
    machine = readings(16 * GB, accelerator=Accelerator("metal", 16 * GB, active=5 * GB, cached=GB, unified=True))
    assert used_percent(machine, budget(machine, POLICY)) == 50.0


def test_a_full_accelerator_causes_pressure_at_any_host_memory() -> None:
    card = Accelerator("cuda", total=10 * GB, free=0, active=8 * GB, cached=GB)
    machine = readings(16 * GB, accelerator=card)
    assert used_percent(machine, budget(machine, POLICY)) > 90


def test_no_budget_at_all_is_critical() -> None:
    assert used_percent(readings(0), Budget(0, 0, "available_now", {}, None, 0)) == 100


def stands(job: Job, idle: float, rung: Rung = Rung.HOT, **more: Any) -> Occupancy:
    return Occupancy(job, job, rung, Amount(private=10), last_used=NOW - idle, **more)


ENGINES = [stands("llm", 119), stands("vision", 121), stands("asr", 31), stands("tts", 4)]


@pytest.mark.parametrize(
    ("level", "steps"),
    [
        (Level.LOW, ()),
        (Level.MODERATE, (Step("vision", Rung.WARM),)),
        (Level.HIGH, (Step("vision", Rung.WARM), Step("llm", Rung.WARM), Step("asr", Rung.WARM))),
        (Level.CRITICAL, (Step("vision", Rung.COLD), Step("llm", Rung.COLD), Step("asr", Rung.COLD))),
    ],
)
def test_steps_by_level(level: Level, steps: tuple[Step, ...]) -> None:
    assert relief(level, ENGINES, NOW, POLICY) == steps


@pytest.mark.parametrize(
    ("level", "steps"),
    [
        (Level.LOW, ()),
        (Level.MODERATE, (Step("asr", Rung.WARM), Step("llm", Rung.WARM))),
        (Level.HIGH, (Step("asr", Rung.WARM), Step("llm", Rung.WARM), Step("vision", Rung.WARM))),
    ],
)
def test_a_private_copy_of_weights_goes_first_and_at_once(level: Level, steps: tuple[Step, ...]) -> None:
    engines = [
        stands("vision", 31),
        stands("llm", 11, copied=1),
        stands("asr", 12, copied=1),
        stands("tts", 4, copied=1),
    ]
    assert relief(level, engines, NOW, POLICY) == steps


def test_warm_engines_are_closed_at_critical_only() -> None:
    warm = [stands("llm", 500, Rung.WARM)]
    assert relief(Level.HIGH, warm, NOW, POLICY) == ()
    assert relief(Level.CRITICAL, warm, NOW, POLICY) == (Step("llm", Rung.COLD),)
    assert relief(Level.HIGH, warm, NOW, MemoryPolicy(cpu_offload=False)) == (Step("llm", Rung.COLD),)


@given(
    st.sampled_from(Level),
    st.lists(
        st.builds(
            stands,
            st.sampled_from(JOBS),
            st.floats(0, 300),
            st.sampled_from(Rung),
            leases=st.integers(0, 1),
            copied=st.integers(0, 1),
            pinned=st.booleans(),
            busy=st.booleans(),
        ),
        max_size=4,
        unique_by=lambda one: one.id,
    ),
)
def test_an_engine_in_use_never_steps_down(level: Level, engines: list[Occupancy]) -> None:
    by_id = {one.id: one for one in engines}
    for step in relief(level, engines, NOW, POLICY):
        one = by_id[step.id]
        assert not one.leases
        assert not one.pinned
        assert not one.busy
        assert NOW - one.last_used >= POLICY.grace_seconds
        assert step.to < one.rung
