"""How tight memory is, and which idle engines should go for it: pure functions."""

from __future__ import annotations

import enum
from collections.abc import Iterable

from edgeserve.engine import Rung
from edgeserve.memory.budget import Budget
from edgeserve.memory.plan import Standing, Step, may_step_down
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.system.readings import Readings, SystemPressure

STALLED = 10.0
"""Percent of time in which every task of our group waited for memory (PSI full, 10 s) from which pressure is HIGH."""


class Level(enum.IntEnum):
    """LOW < 60 ≤ MODERATE < 80 ≤ HIGH < 90 ≤ CRITICAL percent of the budget (reference/gpu-memory-governor.md)."""

    LOW = 0
    MODERATE = 1
    HIGH = 2
    CRITICAL = 3


def used_percent(readings: Readings, limit: Budget) -> float:
    """What we hold that the system cannot take back, in percent of the budget; the larger of host and device.

    Mapped weights do not count: the system drops them by itself. Were they counted, one engine that fills its budget
    as planned would stop its own answers as CRITICAL.
    """
    shares = [readings.unreclaimable / limit.ceiling if limit.ceiling else 1.0]
    if limit.device:
        shares.append((readings.accelerator.active + readings.accelerator.cached) / limit.device)
    return 100 * max(shares)


def level_of(percent: float, readings: Readings, policy: MemoryPolicy) -> Level:
    """The level of that share, raised when the system itself says that it is worse."""
    bounds = (policy.moderate_percent, policy.high_percent, policy.critical_percent)
    level = Level(sum(percent >= bound for bound in bounds))
    if readings.system_pressure is SystemPressure.CRITICAL:
        return Level.CRITICAL
    stalled = readings.stall is not None and readings.stall.full >= STALLED
    if stalled or readings.system_pressure is SystemPressure.WARN:
        return max(level, Level.HIGH)
    return level


def relief(level: Level, residents: Iterable[Standing], now: float, policy: MemoryPolicy) -> tuple[Step, ...]:
    """Who steps down, least recently used first: MODERATE parks what idled 120 s, HIGH what idled 30 s, CRITICAL
    closes all idle. Never one in use, pinned, or used within the grace time."""
    if level is Level.LOW:
        return ()
    least = {Level.MODERATE: policy.eviction_idle_seconds, Level.HIGH: policy.high_idle_seconds}.get(level, 0.0)
    to = Rung.COLD if level is Level.CRITICAL or not policy.cpu_offload else Rung.WARM
    ranked = sorted(residents, key=lambda one: one.last_used)
    return tuple(
        Step(one.job, to)
        for one in ranked
        if one.rung > to and now - one.last_used >= least and may_step_down(one, now, policy)
    )
