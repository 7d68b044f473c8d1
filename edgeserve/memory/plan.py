"""The plan: may an engine take memory, and which engines step down for it? Pure: no side effect, no clock."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from edgeserve.engine import Job, Rung
from edgeserve.memory.amount import NOTHING, Amount
from edgeserve.memory.budget import Budget
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.system.readings import Readings

SavingKind = Literal["prefix_cache", "context", "image", "optional_context"]
SAVING_ORDER: tuple[SavingKind, ...] = ("prefix_cache", "context", "image")
"""Savings that come before eviction, in this order. The optional part of a context goes before all of them
(memory/optional_context.py)."""


@dataclass(frozen=True, slots=True)
class Saving:
    """Memory that an engine can do without, in ``private`` bytes."""

    job: Job
    kind: SavingKind
    private: int


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Memory that one engine occupies, and the facts that decide whether it may step down.

    - ``held``: memory now. ``warm``: memory that would be left on warm.
    - ``last_used``: on the clock of ``now``.
    - ``busy``: the engine has an open reservation, or could not be moved a moment ago.
    - ``weights``: engines with the same value map one file, which is in memory once.
    """

    job: Job
    name: str
    rung: Rung
    held: Amount
    warm: Amount = NOTHING
    leases: int = 0
    last_used: float = 0.0
    pinned: bool = False
    busy: bool = False
    weights: str = ""
    savings: tuple[Saving, ...] = ()

    def at(self, rung: Rung) -> Amount:
        """Memory on ``rung``, which is not above the engine's own."""
        return self.held if rung >= self.rung else self.warm if rung is Rung.WARM else NOTHING


@dataclass(frozen=True, slots=True)
class Need:
    """Memory that an engine wants on top of the memory that it holds."""

    job: Job
    name: str
    amount: Amount


@dataclass(frozen=True, slots=True)
class Step:
    job: Job
    to: Rung


class Verdict(enum.Enum):
    ADMIT = "admit"
    STEP = "step"
    """It fits after these savings and steps: carry them out, then ask again."""
    WAIT = "wait"
    """It fits when engines in use have become idle."""
    REFUSE = "refuse"
    """It does not fit even with everything else cold."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict with its figures, in bytes of host memory.

    - ``free``: of the budget now. ``evictable``: comes free when idle engines step down.
    - ``largest``: the largest need that fits with everything else cold.
    - ``required``: the smallest budget in which this need would fit.
    - ``retry_at``: end of the first grace time.
    """

    verdict: Verdict
    free: int
    evictable: int = 0
    largest: int = 0
    required: int = 0
    savings: tuple[Saving, ...] = ()
    steps: tuple[Step, ...] = ()
    retry_at: float | None = None


Rungs = dict[Job, Rung]
"""Rungs that the plan assumes; an engine that is not listed stays on its own."""


def plan(
    need: Need,
    residents: Sequence[Occupancy],
    readings: Readings,
    budget: Budget,
    now: float,
    policy: MemoryPolicy,
    *,
    base: int = 0,
) -> Decision:
    """Decide on ``need``. ``residents`` are all engines, the one in need included.

    ``base``: bytes that the process took beside its engines while no request ran. A running request that has not used
    its share yet would hide them.

    1. It fits as things stand: admit.
    2. It fits when prefix caches are dropped, then the context shrunk, then the image: step.
    3. It fits when idle engines go down one rung, least recently used first: step.
    4. It fits when they go down two rungs: step.
    5. It would fit if engines in use, or used a moment ago, were idle: wait.
    6. It never fits beside the pinned engines: refuse.
    """
    unbooked = max(base, overhead(residents, readings))
    held, wanted = booked(residents, {}), booked(residents, {}, need)
    free = budget.usable - unbooked - held.host
    # 1.
    if within(wanted, unbooked, need, budget, policy):
        return Decision(Verdict.ADMIT, free)
    idle = sorted(
        (one for one in residents if one.job != need.job and may_step_down(one, now, policy)),
        key=lambda one: one.last_used,
    )
    evictable = held.host - booked(residents, {one.job: Rung.COLD for one in idle}).host

    def fits(rungs: Rungs, saved: int) -> bool:
        return within(booked(residents, rungs, need), unbooked - saved, need, budget, policy)

    # 2.
    savings = _savings(need, residents)
    if (fewest := _sufficient(savings, lambda saved: fits({}, saved))) is not None:
        enough = _limited(fewest, shortage(wanted, unbooked, budget, policy))
        return Decision(Verdict.STEP, free, evictable, savings=tuple(enough))
    # 3. and 4.
    saved = sum(one.private for one in savings)
    room = budget.warm - sum(one.held.host for one in residents if one.rung is Rung.WARM)
    if (steps := _evictions(idle, lambda rungs: fits(rungs, saved), room if policy.cpu_offload else 0)) is not None:
        return Decision(Verdict.STEP, free, evictable, savings=tuple(savings), steps=steps)
    # 5.
    movable = [one for one in residents if one.job != need.job and not one.pinned]
    all_cold = {one.job: Rung.COLD for one in movable}
    mine = sum(one.private for one in savings if one.job == need.job)
    if fits(all_cold, mine):
        return Decision(Verdict.WAIT, free, evictable, retry_at=_grace_end(movable, now, policy))
    # 6.
    alone, together = booked(residents, all_cold), booked(residents, all_cold, need)
    required = _required(together.mapped, max(0, together.private + unbooked - mine), policy)
    return Decision(Verdict.REFUSE, free, evictable, max(0, _largest(alone, budget, policy) - unbooked), required)


def _largest(alone: Amount, budget: Budget, policy: MemoryPolicy) -> int:
    """The largest need that fits beside these engines alone."""
    below = policy.critical_percent * budget.usable // 100 - 1
    return int(min(budget.usable - alone.host, below - alone.private))


def _required(mapped: int, private: int, policy: MemoryPolicy) -> int:
    """The smallest budget that these bytes fit in."""
    return max(mapped + private, int(100 * private / policy.critical_percent) + 1)


def booked(residents: Sequence[Occupancy], rungs: Mapping[Job, Rung], need: Need | None = None) -> Amount:
    """Memory of all engines on these rungs, ``need`` included. Shared weights count once."""
    private = device = 0
    mapped: dict[str, int] = {}
    for one in residents:
        held = one.at(rungs.get(one.job, one.rung))
        if need is not None and one.job == need.job:
            held = held + need.amount
        private, device = private + held.private, device + held.device
        weights = one.weights or one.job
        mapped[weights] = max(mapped.get(weights, 0), held.mapped)
    return Amount(sum(mapped.values()), private, device)


def within(total: Amount, unbooked: int, need: Need, budget: Budget, policy: MemoryPolicy) -> bool:
    """True when ``total``, which includes ``need``, fits in the budget beside ``unbooked`` private bytes."""
    if need.amount.device and budget.device is not None and total.device > budget.device:
        return False
    return shortage(total, unbooked, budget, policy) <= 0


def shortage(total: Amount, unbooked: int, budget: Budget, policy: MemoryPolicy) -> int:
    """Private bytes beyond the budget; 0 or less when everything fits."""
    private = max(0, total.private + unbooked)
    # Private bytes stay below CRITICAL, or the answer would be stopped half-way.
    critical = math.ceil(policy.critical_percent * budget.usable / 100) - 1
    return max(total.mapped + private - budget.usable, private - critical)


def overhead(residents: Sequence[Occupancy], readings: Readings) -> int:
    """Private bytes of the process that no engine's account explains: the server itself, and free pages of the heap."""
    return max(0, readings.unreclaimable - sum(one.held.private for one in residents))


def may_step_down(one: Occupancy, now: float, policy: MemoryPolicy) -> bool:
    """True for an idle engine: not leased, at work, pinned or cold, and past its grace time."""
    used = one.leases or one.busy or one.pinned
    return not used and one.rung > Rung.COLD and now - one.last_used >= policy.grace_seconds


def _savings(need: Need, residents: Sequence[Occupancy]) -> list[Saving]:
    """Savings in order: prefix caches of all idle engines; context and image of the engine in need only."""
    found = [
        saving
        for one in residents
        for saving in one.savings
        if one.job == need.job or (saving.kind == "prefix_cache" and not one.leases and not one.busy)
    ]
    return sorted(found, key=lambda one: SAVING_ORDER.index(one.kind))


def _sufficient(savings: Sequence[Saving], fits: Callable[[int], bool]) -> Sequence[Saving] | None:
    """The shortest beginning of the savings that is enough; None when all together are not."""
    for count in range(1, len(savings) + 1):
        if fits(sum(one.private for one in savings[:count])):
            return savings[:count]
    return None


def _limited(savings: Sequence[Saving], missing: int) -> Iterator[Saving]:
    """The savings, in order, cut to the bytes that are missing."""
    for one in savings:
        taken = min(one.private, missing)
        if taken > 0:
            yield dataclasses.replace(one, private=taken)
        missing -= taken


def _evictions(idle: Sequence[Occupancy], fits: Callable[[Rungs], bool], room: int) -> tuple[Step, ...] | None:
    """Steps of idle engines that make the need fit; None when all of them are not enough.

    ``room``: bytes that warm engines may still take; without any, engines are closed instead of parked."""
    rungs: Rungs = {}
    # 3. one rung each
    for one in idle:
        if one.rung is Rung.HOT and room > 0 and one.warm.host <= room:
            room -= one.warm.host
            rungs[one.job] = Rung.WARM
            if fits(rungs):
                return _without_unneeded(idle, rungs, fits)
    # 4. two rungs
    for one in idle:
        rungs[one.job] = Rung.COLD
        if fits(rungs):
            return _without_unneeded(idle, rungs, fits)
    return None


def _without_unneeded(idle: Sequence[Occupancy], rungs: Rungs, fits: Callable[[Rungs], bool]) -> tuple[Step, ...]:
    """The steps without unneeded ones; the most recently used engine is spared first."""
    kept = dict(rungs)
    for one in reversed(idle):
        without = {job: rung for job, rung in kept.items() if job != one.job}
        if fits(without):
            kept = without
    return tuple(Step(one.job, kept[one.job]) for one in idle if one.job in kept)


def _grace_end(movable: Sequence[Occupancy], now: float, policy: MemoryPolicy) -> float | None:
    ends = [one.last_used + policy.grace_seconds for one in movable if one.rung > Rung.COLD and not one.leases]
    return min((end for end in ends if end > now), default=None)
