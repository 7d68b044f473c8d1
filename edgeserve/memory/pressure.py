"""Pressure: the level of memory in use, and the idle engines that step down for it. Pure functions."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from edgeserve.engine import Rung
from edgeserve.memory.budget import Budget
from edgeserve.memory.occupancy import Occupancy
from edgeserve.memory.plan import Step
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.system.readings import Readings, SystemPressure

STALLED_PERCENT = 10.0
"""Share of the last 10 s in which all tasks of our group waited for memory (PSI full), from which pressure is HIGH."""


class Level(enum.IntEnum):
    """LOW < 60 ≤ MODERATE < 80 ≤ HIGH < 90 ≤ CRITICAL percent of the budget."""

    LOW = 0
    MODERATE = 1
    HIGH = 2
    CRITICAL = 3


def used_percent(readings: Readings, limit: Budget, left_out: int = 0) -> float:
    """Unreclaimable memory of the server, in percent of the budget; the larger share of host and device.

    ``left_out``: bytes of the host that do not count.

    Mapped weights do not count: the system drops them by itself. Otherwise one engine that fills the budget as planned
    would stop its own answers as CRITICAL.
    """
    shares = [max(0, readings.unreclaimable - left_out) / limit.ceiling if limit.ceiling else 1.0]
    if limit.device:
        shares.append((readings.accelerator.active + readings.accelerator.cached) / limit.device)
    return 100 * max(shares)


def level_of(percent: float, readings: Readings, policy: MemoryPolicy) -> Level:
    """The level of a share in use, raised when the system itself reports a worse one."""
    bounds = (policy.moderate_percent, policy.high_percent, policy.critical_percent)
    level = Level(sum(percent >= bound for bound in bounds))
    if readings.system_pressure is SystemPressure.CRITICAL:
        return Level.CRITICAL
    stalled = readings.stall is not None and readings.stall.full >= STALLED_PERCENT
    if stalled or readings.system_pressure is SystemPressure.WARN:
        return max(level, Level.HIGH)
    return level


def relief(level: Level, residents: Iterable[Occupancy], now: float, policy: MemoryPolicy) -> tuple[Step, ...]:
    """Steps down at a level, least recently used engine first.

    MODERATE parks engines that idled 120 s, HIGH engines that idled 30 s; CRITICAL closes all idle engines. An engine
    with a private copy of its weights steps down first and at once. It returns with mapped weights while memory has no
    room for the copy. An engine in use, a pinned one and one used within the grace time stay."""
    if level is Level.LOW:
        return ()
    least = {Level.MODERATE: policy.eviction_idle_seconds, Level.HIGH: policy.high_idle_seconds}.get(level, 0.0)
    to = Rung.COLD if level is Level.CRITICAL or not policy.cpu_offload else Rung.WARM
    ranked = sorted(residents, key=lambda one: (not one.copied, one.last_used))
    return tuple(
        Step(one.id, to)
        for one in ranked
        if one.rung > to and (one.copied or now - one.last_used >= least) and one.may_step_down(now, policy)
    )
