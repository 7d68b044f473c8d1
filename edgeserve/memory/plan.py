"""Decisions about memory: pure functions of what is known; no side effect, no clock, no reading of their own."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass

from edgeserve.engine import Job, Rung
from edgeserve.memory.policy import GB, MemoryPolicy, os_reserve
from edgeserve.memory.probe import Readings


class Pressure(enum.IntEnum):
    """LOW < 60 ≤ MODERATE < 80 ≤ HIGH < 90 ≤ CRITICAL percent of the budget (reference/gpu-memory-governor.md)."""

    LOW = 0
    MODERATE = 60
    HIGH = 80
    CRITICAL = 90


@dataclass(frozen=True, slots=True)
class Standing:
    """What a decision knows of one engine. ``bytes_by_rung``: what it takes on cold, warm and hot."""

    job: Job
    rung: Rung
    bytes_by_rung: tuple[int, int, int]
    leases: int
    idle: float
    pinned: bool = False

    @property
    def bytes(self) -> int:
        return self.bytes_by_rung[self.rung]


@dataclass(frozen=True, slots=True)
class Budget:
    """Bytes that all engines together may take, and which candidate set it."""

    bytes: int
    winner: str
    candidates: dict[str, int]


@dataclass(frozen=True, slots=True)
class Step:
    job: Job
    to: Rung


@dataclass(frozen=True, slots=True)
class Decision:
    """Admit after these steps, or, when ``fits`` is False, not at all."""

    fits: bool
    steps: tuple[Step, ...] = ()
    available: int = 0
    evictable: int = 0


def budget(readings: Readings, held: int, policy: MemoryPolicy, recommended: int | None = None) -> Budget:
    """The smallest of the candidates. ``held`` is what the engines have now; ``recommended`` the accelerator's word.

    The margin under "available now" is 3 GB (reference/eviction-versus-limits.md), on small boxes a tenth of the total.
    """
    reserve = os_reserve(readings.total) if policy.os_reserve_gb < 0 else int(policy.os_reserve_gb * GB)
    margin = min(3 * GB, readings.total // 10)
    candidates = {
        "fraction_of_total": int(readings.total * policy.max_percent),
        "total_minus_reserve": readings.total - reserve,
        "adaptive_available": readings.available + held - margin,
    }
    if recommended is not None:
        candidates["accelerator_recommended"] = recommended
    winner = min(candidates, key=lambda name: candidates[name])
    return Budget(max(0, candidates[winner]), winner, candidates)


def pressure(used: int, limit: int) -> Pressure:
    percent = 100 * used / limit if limit else 100.0
    return max(level for level in Pressure if percent >= level)


def admit(need: int, limit: int, booked: int, others: Sequence[Standing], policy: MemoryPolicy) -> Decision:
    """May ``need`` more bytes be taken under ``limit`` when ``booked`` are, and who must step down for it?

    1. It fits as things are: admit.
    2. Take victims least recently used first, one rung each, then once more, two rungs, until it fits.
       Never one with a lease, pinned, or used within the grace time.
    3. It does not fit even so: refuse, with what there is and what eviction could add.
    """
    # 1.
    free = limit - booked
    if need <= free:
        return Decision(True, available=free)
    # 2.
    victims = sorted((one for one in others if may_step_down(one, policy)), key=lambda one: -one.idle)
    evictable = sum(one.bytes - one.bytes_by_rung[Rung.COLD] for one in victims)
    rungs = (Rung.WARM, Rung.COLD) if policy.cpu_offload else (Rung.COLD,)
    now = {one.job: one.rung for one in victims}
    for to in rungs:
        for one in victims:
            if free < need and now[one.job] > to:
                free += one.bytes_by_rung[now[one.job]] - one.bytes_by_rung[to]
                now[one.job] = to
    steps = tuple(Step(one.job, now[one.job]) for one in victims if now[one.job] < one.rung)
    if need <= free:
        return Decision(True, steps, limit - booked, evictable)
    # 3.
    return Decision(False, (), limit - booked, evictable)


def may_step_down(one: Standing, policy: MemoryPolicy) -> bool:
    return not one.leases and not one.pinned and one.rung > Rung.COLD and one.idle >= policy.grace_seconds


def relieve(level: Pressure, engines: Sequence[Standing], policy: MemoryPolicy) -> tuple[Step, ...]:
    """Who steps down: MODERATE parks what idled long, HIGH what idled a while, CRITICAL closes all that idle."""
    idle_for = {Pressure.MODERATE: policy.eviction_idle_seconds, Pressure.HIGH: policy.high_idle_seconds}
    if level is Pressure.LOW:
        return ()
    to = Rung.COLD if level is Pressure.CRITICAL else Rung.WARM
    least = idle_for.get(level, policy.grace_seconds)
    ranked = sorted(engines, key=lambda one: -one.idle)
    return tuple(
        Step(one.job, to) for one in ranked if one.rung > to and one.idle >= least and may_step_down(one, policy)
    )


def too_large(job: Job, size: int, total: int, policy: MemoryPolicy) -> bool:
    """More than the threshold share of the total? Vision is then refused, text warned about."""
    return job in ("vision", "llm") and size > policy.vision_threshold * total
