"""The plan: may an engine take memory, and which engines step down for it? Pure: no side effect, no clock."""

from __future__ import annotations

import dataclasses
import enum
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from edgeserve.engine import Rung
from edgeserve.memory.amount import Amount
from edgeserve.memory.budget import Budget
from edgeserve.memory.occupancy import SAVING_ORDER, Need, Occupancy, Rungs, Saving, booked, overhead
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.system.readings import Readings


@dataclass(frozen=True, slots=True)
class Step:
    id: str
    to: Rung


class Verdict(enum.Enum):
    ADMIT = "admit"
    STEP = "step"
    """It fits after these savings and steps: carry them out, then ask again."""
    YIELD = "yield"
    """Its engine makes way for a request ahead: carry out its own step, then ask again."""
    WAIT = "wait"
    """It fits when engines in use have become idle."""
    REFUSE = "refuse"
    """It does not fit even with everything else cold."""


@dataclass(frozen=True, slots=True)
class Decision:
    """The verdict with its figures, in bytes of host memory.

    - ``free``: of the budget now. ``evictable``: comes free when idle engines step down.
    - ``largest``: the largest need that fits with everything else cold, and the requests and answers of others gone.
    - ``required``: the smallest budget in which this need would fit then. ``missing``: bytes beyond the budget then;
      of a wait, with everything else cold alone.
    """

    verdict: Verdict
    free: int
    evictable: int = 0
    largest: int = 0
    required: int = 0
    missing: int = 0
    savings: tuple[Saving, ...] = ()
    steps: tuple[Step, ...] = ()


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

    Engines that idle, and have not been used within the grace time, may step down; ``Case.decide`` has the rules.
    """
    idle = sorted((one for one in residents if one.may_step_down(now, policy)), key=lambda one: one.last_used)
    order = tuple(one.id for one in idle)
    return Case(need, residents, budget, policy, max(base, overhead(residents, readings)), order).decide()


def within(total: Amount, unbooked: int, need: Need, budget: Budget, policy: MemoryPolicy) -> bool:
    """True when ``total``, which includes ``need``, fits in the budget beside ``unbooked`` private bytes."""
    if need.amount.device and budget.device is not None and total.device > budget.device:
        return False
    return shortage(total, unbooked, budget, policy) <= 0


def shortage(total: Amount, unbooked: int, budget: Budget, policy: MemoryPolicy) -> int:
    """Private bytes beyond the budget; 0 or less when everything fits."""
    private = max(0, total.private + unbooked)
    return max(total.mapped + private - budget.usable, private - most_private(budget, policy))


def most_private(budget: Budget, policy: MemoryPolicy) -> int:
    """Private bytes that a plan may reach: they stay below CRITICAL, or the answer would be stopped half-way."""
    return math.ceil(policy.critical_percent * budget.usable / 100) - 1


@dataclass(frozen=True)
class Case:
    """One need with the engines and the budget that decide on it.

    ``unbooked``: private bytes beside all engines; ``passing``: those of them that come free again. ``order``: ids of
    the engines that may step down, in this order.
    """

    need: Need
    residents: Sequence[Occupancy]
    budget: Budget
    policy: MemoryPolicy
    unbooked: int
    order: tuple[str, ...] = ()
    passing: int = 0

    def decide(self) -> Decision:
        """The verdict.

        1. It fits as things stand: admit.
        2. It fits when prefix caches are dropped, then the context shrunk, then the image: step.
        3. It fits when engines that may go step down one rung, in their order: step.
        4. It fits when they go down two rungs: step. Of 3 and 4, first with the whole context and image.
        5. It would fit if engines in use, or used a moment ago, were idle, and requests and answers gone: wait.
        6. It never fits beside the pinned engines: refuse.
        """
        # 1.
        if self.fits({}, 0):
            return Decision(Verdict.ADMIT, self.free)
        # 2.
        savings = self.savings()
        if (enough := self.sufficient(savings)) is not None:
            return Decision(Verdict.STEP, self.free, self.evictable, savings=enough)
        # 3. and 4. Engines go anyway: a smaller context would end its answers early for nothing.
        for given in ([one for one in savings if one.kind == "prefix_cache"], savings):
            if (steps := self.evictions(sum(one.private for one in given))) is not None:
                return Decision(Verdict.STEP, self.free, self.evictable, savings=tuple(given), steps=steps)
        # 5. and 6.
        return self.wait_or_refuse()

    def fits(self, rungs: Rungs, saved: int) -> bool:
        """True when the need fits with the engines on these rungs and ``saved`` bytes less."""
        total = booked(self.residents, rungs, self.need)
        return within(total, self.unbooked - saved, self.need, self.budget, self.policy)

    @property
    def free(self) -> int:
        return self.budget.usable - self.unbooked - booked(self.residents, {}).host

    @property
    def evictable(self) -> int:
        cold = {one.id: Rung.COLD for one in self.idle()}
        return booked(self.residents, {}).host - booked(self.residents, cold).host

    def idle(self) -> list[Occupancy]:
        """Engines that may step down for the need, in their order."""
        found = {one.id: one for one in self.residents if one.id != self.need.id}
        return [found[name] for name in self.order if name in found]

    def savings(self) -> list[Saving]:
        """Savings in order: prefix caches of all idle engines; context and image of the engine in need only."""
        found = [
            saving
            for one in self.residents
            for saving in one.savings
            if one.id == self.need.id or (saving.kind == "prefix_cache" and not one.leases and not one.busy)
        ]
        return sorted(found, key=lambda one: SAVING_ORDER.index(one.kind))

    def sufficient(self, savings: Sequence[Saving]) -> tuple[Saving, ...] | None:
        """The first savings that are enough, cut to the missing bytes; None when all together are not enough."""
        missing = shortage(booked(self.residents, {}, self.need), self.unbooked, self.budget, self.policy)
        for count in range(1, len(savings) + 1):
            if self.fits({}, sum(one.private for one in savings[:count])):
                return tuple(_cut(savings[:count], missing))
        return None

    def evictions(self, saved: int) -> tuple[Step, ...] | None:
        """Steps of idle engines that make the need fit; None when all of them are not enough."""
        idle = self.idle()
        rungs: dict[str, Rung] = {}

        def fits(assumed: Rungs) -> bool:
            return self.fits(assumed, saved)

        # 3. One rung each, while the warm engines have room.
        room = self.budget.warm - sum(one.held.host for one in self.residents if one.rung is Rung.WARM)
        for one in idle if self.policy.cpu_offload else ():
            if one.rung is Rung.HOT and room > 0 and one.warm.host <= room:
                room -= one.warm.host
                rungs[one.id] = Rung.WARM
                if fits(rungs):
                    return _needed(idle, rungs, fits)
        # 4. Two rungs.
        for one in idle:
            rungs[one.id] = Rung.COLD
            if fits(rungs):
                return _needed(idle, rungs, fits)
        return None

    def wait_or_refuse(self) -> Decision:
        """Rules 5 and 6. Requests under way in pinned engines end, too."""
        if any(one.requests.total for one in self.residents):
            rested = dataclasses.replace(self, residents=[one.at_rest() for one in self.residents])
            return dataclasses.replace(rested.wait_or_refuse(), free=self.free, evictable=self.evictable)
        saved = sum(one.private for one in self.savings() if one.id == self.need.id)
        movable = [one for one in self.residents if one.id != self.need.id and not one.pinned]
        all_cold = {one.id: Rung.COLD for one in movable}
        passing = min(self.passing, self.unbooked)
        # 5.
        together = booked(self.residents, all_cold, self.need)
        if self.fits(all_cold, saved + passing):
            missing = max(0, shortage(together, self.unbooked - saved, self.budget, self.policy))
            return Decision(Verdict.WAIT, self.free, self.evictable, missing=missing)
        # 6.
        lasting = self.unbooked - passing
        required = self._required(together.mapped, max(0, together.private + lasting - saved))
        largest = max(0, self._largest(booked(self.residents, all_cold)) - lasting)
        missing = shortage(together, lasting - saved, self.budget, self.policy)
        return Decision(Verdict.REFUSE, self.free, self.evictable, largest, required, missing)

    def _largest(self, alone: Amount) -> int:
        """The largest need that fits beside these engines alone."""
        below = self.policy.critical_percent * self.budget.usable // 100 - 1
        return int(min(self.budget.usable - alone.host, below - alone.private))

    def _required(self, mapped: int, private: int) -> int:
        """The smallest budget that these bytes fit in."""
        return max(mapped + private, int(100 * private / self.policy.critical_percent) + 1)


def _cut(savings: Sequence[Saving], missing: int) -> Iterator[Saving]:
    """The savings, in order, cut to the bytes that are missing."""
    for one in savings:
        taken = min(one.private, missing)
        if taken > 0:
            yield dataclasses.replace(one, private=taken)
        missing -= taken


def _needed(idle: Sequence[Occupancy], rungs: Rungs, fits: Callable[[Rungs], bool]) -> tuple[Step, ...]:
    """The steps without unneeded ones; the most recently used engine is spared first."""
    kept = dict(rungs)
    for one in reversed(idle):
        without = {one_id: rung for one_id, rung in kept.items() if one_id != one.id}
        if fits(without):
            kept = without
    return tuple(Step(one.id, kept[one.id]) for one in idle if one.id in kept)
