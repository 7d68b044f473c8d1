"""The budget: each candidate as the winner, and the texts of the 70% rule as in the reference."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.memory import readings

from edgeserve.engine import ModelSpec
from edgeserve.jobs import Job
from edgeserve.memory.budget import (
    available_margin,
    budget,
    os_reserve,
    prefix_cache_threshold,
    text_warning,
    too_large,
    vision_refusal,
)
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.system.readings import Accelerator, GroupLimit
from edgeserve.units import GB

POLICY = MemoryPolicy()


@each(
    ("total", "reserve"),
    [(2, 0.5), (4, 1), (8, 2), (16, 4), (17, 4.25), (24, 6), (64, 6), (65, 8), (128, 8), (129, 12)],
)
def test_the_system_keeps_its_tier_and_small_boxes_a_quarter(total: int, reserve: float) -> None:
    assert os_reserve(total * GB, POLICY) == int(reserve * GB)


def test_the_reserve_can_be_set() -> None:
    assert os_reserve(4 * GB, MemoryPolicy(os_reserve_gb=0.25)) == GB // 4
    assert os_reserve(4 * GB, MemoryPolicy(os_reserve_gb=0)) == 0


@each(("total", "share"), [(4, 0.70), (31, 0.70), (32, 0.75), (64, 0.80), (127, 0.80), (128, 0.85)])
def test_prefix_caches_are_dropped_by_the_size_of_the_machine(total: int, share: float) -> None:
    assert prefix_cache_threshold(total * GB, POLICY) == share
    assert prefix_cache_threshold(total * GB, MemoryPolicy(memory_threshold=0.5)) == 0.5


@each(
    ("machine", "winner", "usable"),
    [
        (readings(16 * GB), "total_minus_reserve", 12 * GB),
        (readings(128 * GB), "fraction_of_total", int(128 * GB * 0.9)),
        (readings(16 * GB, available=4 * GB, anon=2 * GB), "available_now", 6 * GB - 16 * GB // 20),
        (readings(16 * GB, group=GroupLimit(GB, GB)), "fraction_of_total", int(GB * 0.9)),
        (readings(16 * GB, group=GroupLimit(GB, GB // 2)), "available_now", GB // 2 - GB // 20),
        (
            readings(32 * GB, accelerator=Accelerator("metal", 32 * GB, recommended=21 * GB, unified=True)),
            "accelerator_recommended",
            21 * GB,
        ),
    ],
)
def test_the_smallest_candidate_wins_and_is_named(machine: Any, winner: str, usable: int) -> None:
    found = budget(machine, POLICY)
    assert (found.winner, found.usable) == (winner, usable)
    assert found.candidates[winner] == min(found.candidates.values())


def test_available_memory_can_be_left_out() -> None:
    machine = readings(16 * GB, available=0)
    assert budget(machine, POLICY).usable == 0
    assert budget(machine, POLICY, settled=False).usable == 12 * GB


def test_pressure_is_measured_without_the_margin() -> None:
    machine = readings(16 * GB, available=4 * GB, anon=2 * GB)
    assert budget(machine, POLICY).ceiling == 6 * GB


def test_an_accelerators_own_memory_is_a_second_budget() -> None:
    card = Accelerator("cuda", total=10 * GB, free=8 * GB, active=GB)
    assert budget(readings(accelerator=card), POLICY).device == 9 * GB
    crowded = Accelerator("cuda", total=10 * GB, free=2 * GB, active=GB)
    assert budget(readings(accelerator=crowded), POLICY).device == 3 * GB
    assert budget(readings(), POLICY).device is None


@given(st.integers(0, 1 << 40), st.integers(0, 1 << 40))
def test_a_larger_machine_never_has_a_smaller_budget(one: int, other: int) -> None:
    small, large = sorted([one, other])
    assert budget(readings(small), POLICY).usable <= budget(readings(large), POLICY).usable
    assert available_margin(small, POLICY) <= available_margin(large, POLICY) <= 3 * GB


def sized(tmp_path: Path, job: Job, size: int) -> ModelSpec:
    path = tmp_path / "model.gguf"
    with path.open("wb") as file:
        file.truncate(size)
    return ModelSpec(job, "model", "edgeserve.engines.fake.chat:FakeChat", {"model": path})


def test_the_texts_of_the_70_percent_rule(tmp_path: Path) -> None:
    """The case of ADR-016: 49.9 GB on a machine of 68719476736 bytes."""
    spec = sized(tmp_path, "vision", 49_900_000_000)
    assert too_large(spec, 68_719_476_736, POLICY)
    assert vision_refusal(spec, 68_719_476_736, POLICY) == (
        "Model size (49.9 GB) exceeds 70% of system memory (68.7 GB). Vision models crash with Metal OOM due to Vision "
        "Encoder overhead. Aborting."
    )
    assert text_warning(spec, 68_719_476_736, POLICY) == (
        "Model size 49.9 GB exceeds 70% of 68.7 GB system memory. Expect extreme slowness due to swapping."
    )


def test_the_threshold_is_exclusive_and_configurable(tmp_path: Path) -> None:
    spec = sized(tmp_path, "vision", 700)
    assert not too_large(spec, 1000, POLICY)
    assert too_large(spec, 999, POLICY)
    assert "exceeds 50% of" in vision_refusal(spec, 999, MemoryPolicy(vision_threshold=0.5))
