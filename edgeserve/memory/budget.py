"""How much all engines together may take: the smallest of several candidates, and which one it was."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgeserve.engine import ModelSpec
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.system.readings import Readings
from edgeserve.units import GB

OS_RESERVE_TIERS = ((16, 4), (64, 6), (128, 8))
"""Machines up to so many GB leave so many GB to the system; larger ones 12 (reference/unified-memory-budget.md)."""
PREFIX_CACHE_TIERS = ((128, 0.85), (64, 0.80), (32, 0.75))
"""Machines from so many GB drop cached prefixes at this share of memory used; smaller ones at 0.70
(reference/eviction-versus-limits.md)."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Bytes. ``usable`` is planned with; ``ceiling`` is the same without the margin under what is available, which
    pressure is measured against. ``device``: of an accelerator with memory of its own, None without one. ``warm``:
    what warm engines may hold of ``usable``."""

    usable: int
    ceiling: int
    winner: str
    candidates: Mapping[str, int]
    device: int | None
    warm: int


def budget(readings: Readings, policy: MemoryPolicy, *, settled: bool = True) -> Budget:
    """The budget as things stand. ``settled`` False leaves out what is available now, for memory just given back that
    the system has not counted yet."""
    candidates = {
        "fraction_of_total": int(readings.total * policy.max_percent),
        # The system lives outside our control group: its reserve is taken from the machine, not from the group.
        "total_minus_reserve": readings.machine_total - os_reserve(readings.machine_total, policy),
    }
    accelerator = readings.accelerator
    if accelerator.unified and accelerator.recommended:
        candidates["accelerator_recommended"] = accelerator.recommended
    ceiling = min(candidates.values())
    if settled:
        # Mapped pages count as available already, so only what the system cannot take back is ours on top.
        reachable = readings.available + readings.unreclaimable
        ceiling = min(ceiling, reachable)
        candidates["available_now"] = reachable - available_margin(readings.total, policy)
    winner = min(candidates, key=lambda name: candidates[name])
    device = None
    if accelerator.has_own_memory:
        device = min(int(accelerator.total * policy.max_percent), accelerator.free + accelerator.active)
    return Budget(
        usable=max(0, candidates[winner]),
        ceiling=max(0, ceiling),
        winner=winner,
        candidates=candidates,
        device=device,
        warm=int(readings.total * policy.warm_max_percent),
    )


def os_reserve(total: int, policy: MemoryPolicy) -> int:
    """Bytes left to the system: 4 GB up to 16 GB of memory, 6 up to 64, 8 up to 128, else 12.

    The tiers were drawn for desktop machines from 16 GB up; 4 GB of a 4 GB box would leave nothing. Smaller boxes run
    little beside us: they reserve a quarter, which is the share that the first tier has at 16 GB.
    """
    if policy.os_reserve_gb >= 0:
        return int(policy.os_reserve_gb * GB)
    tier = next((reserve for limit, reserve in OS_RESERVE_TIERS if total <= limit * GB), 12)
    return min(tier * GB, total // 4)


def available_margin(total: int, policy: MemoryPolicy) -> int:
    """Bytes of what is available that are never planned with: 3 GB (the reference's safety margin), which is 5% of
    a 60 GB machine; smaller ones keep that share."""
    if policy.available_margin_gb >= 0:
        return int(policy.available_margin_gb * GB)
    return min(3 * GB, total // 20)


def prefix_cache_threshold(total: int, policy: MemoryPolicy) -> float:
    """Share of memory used from which cached prefixes are dropped, least recently used first."""
    if policy.memory_threshold >= 0:
        return policy.memory_threshold
    return next((share for least, share in PREFIX_CACHE_TIERS if total >= least * GB), 0.70)


def too_large(spec: ModelSpec, total: int, policy: MemoryPolicy) -> bool:
    """Are the model's files larger than the threshold share of the machine's memory?"""
    return spec.size_bytes > policy.vision_threshold * total


def vision_refusal(spec: ModelSpec, total: int, policy: MemoryPolicy) -> str:
    """The text of reference/vision-threshold-and-switch-gate.md; GB are decimal there. The command line puts
    "[ERROR] " before it."""
    return (
        f"Model size ({spec.size_bytes / 1e9:.1f} GB) exceeds {policy.vision_threshold:.0%} of system memory "
        f"({total / 1e9:.1f} GB). Vision models crash with Metal OOM due to Vision Encoder overhead. Aborting."
    )


def text_warning(spec: ModelSpec, total: int, policy: MemoryPolicy) -> str:
    """For the operator's log only: text models swap, but do not crash."""
    return (
        f"Model size {spec.size_bytes / 1e9:.1f} GB exceeds {policy.vision_threshold:.0%} of {total / 1e9:.1f} GB "
        "system memory. Expect extreme slowness due to swapping."
    )
