"""The budget of all engines together: the smallest of several candidates, with the name of the winner."""

from __future__ import annotations

from collections.abc import Mapping

from edgeserve.dataclass import dataclass
from edgeserve.engine import ModelSpec
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.system.readings import Readings
from edgeserve.units import GB

OS_RESERVE_TIERS = ((16, 4), (64, 6), (128, 8))
"""Machines up to the first GB leave the second GB to the system; larger ones 12."""
PREFIX_CACHE_TIERS = ((128, 0.85), (64, 0.80), (32, 0.75))
"""Machines from so many GB on drop prefix caches at this share of used memory; smaller ones at 0.70."""


@dataclass(frozen=True, slots=True)
class Budget:
    """Sizes in bytes.

    ``usable``: the plan stays within it. ``ceiling``: ``usable`` without the margin under available memory; pressure is
    a share of it. ``device``: budget of an accelerator with memory of its own, None without one. ``warm``: part of
    ``usable`` that warm engines may hold."""

    usable: int
    ceiling: int
    winner: str
    candidates: Mapping[str, int]
    device: int | None
    warm: int


def budget(readings: Readings, policy: MemoryPolicy, *, settled: bool = True) -> Budget:
    """The budget by these readings.

    ``settled`` False leaves out available memory: the system may not have counted memory that just came back."""
    candidates = {
        "fraction_of_total": int(readings.total * policy.max_percent),
        # The system lives outside of our control group: its reserve comes from the machine, not from the group.
        "total_minus_reserve": readings.machine_total - os_reserve(readings.machine_total, policy),
    }
    accelerator = readings.accelerator
    if accelerator.unified and accelerator.recommended:
        candidates["accelerator_recommended"] = accelerator.recommended
    ceiling = min(candidates.values())
    if settled:
        # Mapped pages count as available already, so only our unreclaimable bytes come on top.
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


def margin(readings: Readings, limit: Budget) -> int:
    """Bytes of the memory beyond the budget that the requests of clients may take beside engines: half of it."""
    return max(0, min(readings.total, readings.available + readings.unreclaimable) - limit.usable) // 2


def os_reserve(total: int, policy: MemoryPolicy) -> int:
    """Bytes left to the system: 4 GB up to 16 GB of memory, 6 up to 64, 8 up to 128, else 12.

    A machine below 16 GB reserves a quarter of its memory, the first tier's share at 16 GB. The tiers are meant for
    desktop machines: 4 GB of a 4 GB box would leave nothing.
    """
    if policy.os_reserve_gb >= 0:
        return int(policy.os_reserve_gb * GB)
    tier = next((reserve for limit, reserve in OS_RESERVE_TIERS if total <= limit * GB), 12)
    return min(tier * GB, total // 4)


def available_margin(total: int, policy: MemoryPolicy) -> int:
    """Available bytes that no plan uses: 3 GB, but at most 5% of the machine."""
    if policy.available_margin_gb >= 0:
        return int(policy.available_margin_gb * GB)
    return min(3 * GB, total // 20)


def prefix_cache_threshold(total: int, policy: MemoryPolicy) -> float:
    """Share of used memory from which prefix caches are dropped, least recently used first."""
    if policy.memory_threshold >= 0:
        return policy.memory_threshold
    return next((share for least, share in PREFIX_CACHE_TIERS if total >= least * GB), 0.70)


def too_large(spec: ModelSpec, total: int, policy: MemoryPolicy) -> bool:
    """True when the model's files are larger than the threshold share of the machine's memory."""
    return larger_than_share(spec.size_bytes, total, policy)


def larger_than_share(size_bytes: int, total: int, policy: MemoryPolicy) -> bool:
    return size_bytes > policy.vision_threshold * total


def vision_refusal(spec: ModelSpec, total: int, policy: MemoryPolicy) -> str:
    """The refusal of a vision model, in decimal GB. The command line puts "[ERROR] " before it."""
    return (
        f"Model size ({spec.size_bytes / 1e9:.1f} GB) exceeds {policy.vision_threshold:.0%} of system memory "
        f"({total / 1e9:.1f} GB). Vision models crash with Metal OOM due to Vision Encoder overhead. Aborting."
    )


def text_warning(spec: ModelSpec, total: int, policy: MemoryPolicy) -> str:
    """A warning for the log: a text model that is too large swaps, but does not crash."""
    return (
        f"Model size {spec.size_bytes / 1e9:.1f} GB exceeds {policy.vision_threshold:.0%} of {total / 1e9:.1f} GB "
        "system memory. Expect extreme slowness due to swapping."
    )
