"""The governor's decisions on Macs of 8 to 512 GB, against the formulas and examples of the reference.

The probe reads the text of ``sysctl`` and ``vm_stat``. EDGESERVE_OVERRIDE_MEMORY_MB simulates the sizes, except where
other programs hold memory. docs/apple.md shows the same table.
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
from support.cases import each
from support.memory import FakeResident, World

from edgeserve.engine import ModelSpec
from edgeserve.errors import DoesNotFit
from edgeserve.jobs import Job
from edgeserve.memory.budget import Budget, budget, os_reserve, prefix_cache_threshold
from edgeserve.memory.metal import MetalLimits, limits
from edgeserve.memory.policy import MemoryPolicy, read_policy
from edgeserve.settings import NO_FILE
from edgeserve.system import process
from edgeserve.system.probe import Probe
from edgeserve.system.readings import ProcessMemory, Readings
from edgeserve.units import GB, MB

DOCUMENT = Path(__file__).parents[3] / "docs" / "apple.md"
PAGE = 16384
SIZES = (8, 16, 24, 48, 64, 128, 512)
MACOS = (15, 1)
USED = 5 / 16
"""Share of the memory that other programs use: 15 of 48 GB, as in eviction-versus-limits.md."""


@pytest.fixture(autouse=True)
def _process(monkeypatch: pytest.MonkeyPatch) -> None:
    """The server itself takes nothing, so that the figures are round."""
    monkeypatch.setattr(process, "read_unique", ProcessMemory)


def prints(total: int, free: int, wired_limit_mb: int = 0) -> Callable[[Sequence[str]], str]:
    """The output of a Mac's commands, with so many free bytes and no cached file."""
    sysctl = f"hw.memsize: {total}\nkern.memorystatus_vm_pressure_level: 1\niogpu.wired_limit_mb: {wired_limit_mb}\n"
    vm_stat = f"Mach Virtual Memory Statistics: (page size of {PAGE} bytes)\nPages free: {free // PAGE}.\n"
    return lambda command: sysctl if "sysctl" in command[0] else vm_stat


def idle(gb: int) -> Readings:
    """A Mac of 512 GB that simulates a smaller one."""
    policy = read_policy({}, {"EDGESERVE_OVERRIDE_MEMORY_MB": str(gb << 10)}, NO_FILE)
    mac = Probe(platform="darwin", run=prints(512 * GB, 512 * GB), override_mb=policy.override_memory_mb)
    return mac.read()


def used(gb: int, share: float = USED, wired_limit_mb: int = 0) -> Readings:
    """A Mac on which other programs hold this share."""
    return Probe(platform="darwin", run=prints(gb * GB, int(gb * GB * (1 - share)), wired_limit_mb)).read()


@dataclasses.dataclass(frozen=True)
class Decisions:
    """Decisions for one Mac, idle and with 5/16 of its memory in use."""

    gb: int
    reserve: int
    working_set: int
    engines: Budget
    mlx: MetalLimits
    beside: Budget
    mlx_beside: MetalLimits
    vision: float
    prefixes: float


def decide(gb: int) -> Decisions:
    alone, crowded, policy = idle(gb), used(gb), MemoryPolicy()
    assert alone.accelerator.recommended == crowded.accelerator.recommended is not None
    return Decisions(
        gb=gb,
        reserve=os_reserve(alone.total, policy),
        working_set=alone.accelerator.recommended,
        engines=budget(alone, policy),
        mlx=limits(alone, MACOS),
        beside=budget(crowded, policy),
        mlx_beside=limits(crowded, MACOS),
        vision=policy.vision_threshold * alone.total,
        prefixes=prefix_cache_threshold(alone.total, policy),
    )


def row(one: Decisions) -> str:
    """A line of the table of docs/apple.md, in GB."""

    def gb(size: float) -> str:
        return f"{size / GB:.1f}".removesuffix(".0")

    def won(size: int, winner: str) -> str:
        return f"{gb(size)} {winner.replace('_', ' ')}"

    share = int(1000 * one.reserve / GB / one.gb + 0.5) / 10
    cells = (
        str(one.gb),
        f"{gb(one.reserve)} ({share:.1f}%)",
        gb(one.working_set),
        won(one.engines.usable, one.engines.winner),
        won(one.mlx.memory, one.mlx.winner),
        won(one.beside.usable, one.beside.winner),
        won(one.mlx_beside.memory, one.mlx_beside.winner),
        gb(one.vision),
        f"{one.prefixes:.0%}",
    )
    return f"| {' | '.join(cells)} |"


def test_the_table_of_the_document_shows_the_decisions() -> None:
    rows = [row(decide(gb)) for gb in SIZES]
    document = DOCUMENT.read_text(encoding="utf-8")
    missing = [one for one in rows if one not in document]
    assert not missing, "docs/apple.md, The Metal governor, should have:\n" + "\n".join(rows)


@each("gb", SIZES)
def test_decisions_follow_the_formulas_of_the_reference(gb: int) -> None:
    """In GB. unified-memory-budget.md: the tiers and the RAM cap; eviction-versus-limits.md: the four candidates."""
    one = decide(gb)
    # Ours: the tiers begin at 16 GB; a smaller machine keeps the quarter that 4 GB are of it (budget.os_reserve).
    reserve = gb / 4 if gb < 16 else 4 if gb <= 16 else 6 if gb <= 64 else 8 if gb <= 128 else 12
    hint = gb * 2 / 3 if gb <= 36 else gb * 3 / 4
    assert one.reserve / GB == reserve
    assert one.working_set / GB == pytest.approx(hint)
    for found, taken in ((one.mlx, 0.0), (one.mlx_beside, USED * gb)):
        candidates = [gb * 0.70, gb - 3, hint, gb - taken - 3]
        assert found.memory / GB == pytest.approx(min(size for size in candidates if size > 2))
        assert found.cache == found.memory // 4
        assert found.wired == min(found.memory, one.working_set)
    for limit, taken in ((one.engines, 0.0), (one.beside, USED * gb)):
        margin = min(3, gb / 20)
        expected = min(gb * 0.90, gb - reserve, hint, gb - taken - margin)
        assert limit.usable / GB == pytest.approx(expected)


@pytest.mark.parametrize(("gb", "share"), [(16, "25.0%"), (64, "9.4%"), (128, "6.3%"), (512, "2.3%")])
def test_the_reserve_at_the_boundaries_of_the_tiers(gb: int, share: str) -> None:
    """ "25% on a 16 GB machine, 9.4% on 64 GB, 6.3% on 128 GB, 2.3% on 512 GB"."""
    assert f"({share})" in row(decide(gb))


def test_the_m4_pro_of_the_reference() -> None:
    """ "On a 48 GB M4 Pro with 15 GB already used: limit = min(33.6, 45, 46, 30.0) = 30.0 GB (adaptive wins)"; its 46
    is ``iogpu.wired_limit_mb`` at 47104."""
    found = limits(used(48, wired_limit_mb=47104), MACOS)
    assert {name: round(size / GB, 1) for name, size in found.candidates.items()} == {
        "fraction_of_total": 33.6,
        "total_minus_reserve": 45.0,
        "apple_recommended": 46.0,
        "adaptive_available": 30.0,
    }
    assert (found.memory, found.winner) == (30 * GB, "adaptive_available")


def test_a_dedicated_server_gives_the_engines_all_but_two_gb() -> None:
    """ "VLLM_METAL_OS_RESERVE=2 (in GB) replaces the tier lookup": the other candidates have settings of their own."""
    names = {"OS_RESERVE": "2", "GPU_MEMORY_MAX_PERCENT": "1.0", "AVAILABLE_MARGIN": "2"}
    policy = read_policy({}, {f"EDGESERVE_{name}": value for name, value in names.items()}, NO_FILE)
    server = used(64, 0.0, wired_limit_mb=62 << 10)
    assert budget(server, policy).usable == 62 * GB
    assert budget(server, MemoryPolicy(os_reserve_gb=2)).winner == "fraction_of_total"
    assert budget(used(64, 0.0), policy).winner == "accelerator_recommended"


@each(
    ("gb", "share"),
    [(8, 0.70), (16, 0.70), (24, 0.70), (32, 0.75), (48, 0.75), (64, 0.80), (128, 0.85), (512, 0.85)],
)
def test_prefix_caches_are_dropped_at_the_share_of_the_tier(gb: int, share: float) -> None:
    assert prefix_cache_threshold(idle(gb).total, MemoryPolicy()) == share


def mac_with(tmp_path: Path, job: Job, size: float, wired_limit_mb: int = 0) -> World:
    """A 64 GB Mac (68.7 in the decimal GB of the messages) with a model whose file has ``size`` of those GB."""
    path = tmp_path / "model"
    with path.open("wb") as file:
        file.truncate(int(size * 1e9))
    resident = FakeResident(job, int(size * 1e9) // MB)
    resident.spec = ModelSpec(job, "model", "edgeserve.engines.fake.engine:FakeChat", {"model": path})
    world = World(64 << 10, resident, policy=MemoryPolicy())
    world.probe.accelerator = FixedAccelerator(used(64, 0.0, wired_limit_mb))
    return world


class FixedAccelerator:
    def __init__(self, readings: Readings) -> None:
        self.readings = readings

    def read(self) -> object:
        return self.readings.accelerator

    def clear_cache(self) -> None: ...


def test_the_vision_model_that_crashed_is_refused(tmp_path: Path) -> None:
    """ADR-016, empirical data: Llama-3.2-90B-Vision-4bit."""
    with pytest.raises(DoesNotFit) as caught:
        mac_with(tmp_path, "vision", 49.9).heat("vision")
    assert caught.value.message == (
        "Model size (49.9 GB) exceeds 70% of system memory (68.7 GB). Vision models crash with Metal OOM due to Vision "
        "Encoder overhead. Aborting."
    )


@pytest.mark.parametrize("size", [6.0, 13.5])
def test_the_vision_models_that_ran_are_admitted(tmp_path: Path, size: float) -> None:
    mac_with(tmp_path, "vision", size).heat("vision")


def test_the_text_model_that_swapped_only_logs_a_warning(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Qwen2.5-Coder-32B-Instruct-bf16. The threshold refuses no text model; that the GPU may take so much is for the
    budget to say, and for the user to allow."""
    with caplog.at_level(logging.WARNING), pytest.raises(DoesNotFit) as caught:
        mac_with(tmp_path, "llm", 61.0).heat("llm")
    warning = "Model size 61.0 GB exceeds 70% of 68.7 GB system memory. Expect extreme slowness due to swapping."
    assert warning in caplog.text
    assert "of the budget of 49,152 MB (accelerator_recommended)" in caught.value.message
    assert "Let the GPU take more with `sudo sysctl iogpu.wired_limit_mb=58174`" in caught.value.message
    mac_with(tmp_path, "llm", 61.0, wired_limit_mb=58174).heat("llm")
