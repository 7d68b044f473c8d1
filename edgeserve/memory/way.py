"""The way of a request that waits for memory: the engines that admit nothing new and step down. Pure: no clock.

Waiting requests stand in an order. Each gets the memory that those ahead of it leave, so a request that fits beside
them need not wait for them.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from edgeserve.dataclass import dataclass
from edgeserve.engine import Rung
from edgeserve.memory.amount import NOTHING, Amount
from edgeserve.memory.budget import Budget
from edgeserve.memory.occupancy import Need, Occupancy
from edgeserve.memory.plan import Case, Decision, Step, Verdict
from edgeserve.memory.policy import MemoryPolicy


@dataclass(frozen=True, slots=True)
class Claim:
    """A request that waits. ``way``: ids of the engines that make way for it already, which it asks first again.

    ``drains``: all make way where no plan does with fewer, because what is missing may be theirs, or their requests'.
    """

    need: Need
    way: frozenset[str] = frozenset()
    drains: bool = False


@dataclass(frozen=True, slots=True)
class Rules:
    """Facts of one decision. ``unbooked``: private bytes beside all engines. ``now``: on the accounts' clock.

    ``passing``: those of ``unbooked`` that are files and unread answers of other requests, and come free again.
    """

    budget: Budget
    policy: MemoryPolicy
    unbooked: int
    now: float
    passing: int = 0


@dataclass(frozen=True, slots=True)
class Turn:
    """The decision on a request, in its place among the others.

    - ``way``: steps of all engines that make way, those at work included. ``decision`` has the steps for now.
    - ``until``: first end of a hot time that the request waits for.
    """

    decision: Decision
    way: tuple[Step, ...] = ()
    until: float | None = None


def turn(
    claim: Claim, ahead: Sequence[Claim], residents: Sequence[Occupancy], rules: Rules, behind: Sequence[Claim] = ()
) -> Turn:
    """Decide on ``claim`` between the claims ``ahead`` and ``behind``. ``residents``: all engines, its own included.

    An engine whose answers rest goes on beside claims ahead that are held up: these cannot take its memory now. Where
    its own claim would be held up too, it keeps its place.
    """
    moving = [one for one in ahead if not held_up(one.way, residents)]
    if len(moving) < len(ahead) and _own(claim, residents).rests:
        early = _among(claim, moving, residents, rules, behind)
        if early.decision.verdict in (Verdict.ADMIT, Verdict.YIELD):
            return early
        if early.way and not held_up({step.id for step in early.way}, residents):
            return early
    return _among(claim, ahead, residents, rules, behind)


def held_up(way: Collection[str], residents: Iterable[Occupancy]) -> bool:
    """Whether an answer that does not rest is under way in one of these engines."""
    return any(one.id in way and one.lasts for one in residents)


def _own(claim: Claim, residents: Iterable[Occupancy]) -> Occupancy:
    return next(one for one in residents if one.id == claim.need.id)


def _among(
    claim: Claim, ahead: Sequence[Claim], residents: Sequence[Occupancy], rules: Rules, behind: Sequence[Claim]
) -> Turn:
    """Decide on ``claim`` between these claims.

    A request that takes no memory of its own always fits: an upload may overdraw the budget beside a hot engine.

    0. Nobody waits ahead, and it fits: admit.
    1. Its engine stands in the way of a request ahead: yield, after the hot time.
    2. It does not fit beside them: refuse what never fits, or wait. Where no engine could help, yield to those behind.
       Where it drains, all step down.
    3. It fits with nothing moved, now and after the requests ahead: admit.
    4. Engines in its way are free to move: step. 5. They are at work: wait.
    """
    need = claim.need
    idle = tuple(one.id for one in _idle(residents, need))
    now = Case(need, residents, rules.budget, rules.policy, rules.unbooked, idle, rules.passing)
    fits = not need.amount.total or now.fits({}, 0)
    # 0. As nearly always.
    if not ahead and fits:
        return Turn(Decision(Verdict.ADMIT, now.free))
    assumed, leaving = after(ahead, residents, rules)
    own = _own(claim, residents)
    # 1.
    if need.id in leaving:
        if own.rung <= leaving[need.id]:  # it stays there until the request ahead has seen what is left
            return Turn(Decision(Verdict.WAIT, now.free))
        stays = Decision(Verdict.ADMIT if fits else Verdict.WAIT, now.free)
        return Turn(_yielded(now, own, leaving, rules) or stays, until=own.hot_until)
    raised = _raised(claim, residents, assumed)
    if not raised.need.amount.total:
        return Turn(Decision(Verdict.ADMIT, now.free))
    # 2.
    if (found := _way(raised, assumed, rules)) is None:
        return _without_way(now, claim, [*ahead, *behind] if behind else [], residents, rules)
    # 3.
    if found.verdict is Verdict.ADMIT:
        return Turn(dataclasses.replace(found, verdict=Verdict.ADMIT if fits else Verdict.WAIT))
    # 4. and 5.
    return _stepping(found, residents, rules)


def _without_way(
    now: Case, claim: Claim, others: Sequence[Claim], residents: Sequence[Occupancy], rules: Rules
) -> Turn:
    """Rule 2 of ``_among``. ``others``: all claims, where some are behind."""
    decision = now.wait_or_refuse()
    if claim.drains and (steps := _all_down(claim, residents)):
        return _stepping(dataclasses.replace(decision, verdict=Verdict.STEP, steps=steps), residents, rules)
    if decision.verdict is not Verdict.WAIT:
        return Turn(decision)
    if others and _way(claim, residents, rules) is None:
        own = _own(claim, residents)
        decision = _yielded(now, own, after(others, residents, rules)[1], rules) or decision
    return Turn(decision)


def _yielded(now: Case, own: Occupancy, leaving: Mapping[str, Rung], rules: Rules) -> Decision | None:
    """The engine of a request makes way; None where nobody needs that, or within its hot time."""
    if own.id not in leaving or (own.rung is Rung.HOT and rules.now < own.hot_until):
        return None
    return Decision(Verdict.YIELD, now.free, steps=(Step(own.id, leaving[own.id]),))


def after(
    claims: Sequence[Claim], residents: Sequence[Occupancy], rules: Rules
) -> tuple[list[Occupancy], dict[str, Rung]]:
    """The engines as they will stand when these requests are served, and the rungs to which some step down for them.

    A request that does not fit beside those before it changes nothing: it waits for their end.
    """
    assumed, leaving = list(residents), dict[str, Rung]()
    for claim in claims:
        raised = _raised(claim, residents, assumed)
        found = _way(raised, assumed, rules)
        if found is not None:
            leaving |= {step.id: step.to for step in found.steps}
            assumed = [_served(one, raised.need, found) for one in assumed]
        elif claim.drains:
            leaving |= {one.id: Rung.COLD for one in residents if one.id != claim.need.id and not one.pinned}
    return assumed, leaving


def _all_down(claim: Claim, residents: Sequence[Occupancy]) -> tuple[Step, ...]:
    return tuple(Step(one.id, Rung.COLD) for one in _others(residents, claim.need))


def _way(claim: Claim, residents: Sequence[Occupancy], rules: Rules) -> Decision | None:
    """The decision with the fewest engines in the way, idle ones first. None when it does not fit beside the others.

    Last it waits for requests of pinned engines, too: these stay hot, and admit nothing new.
    """
    if (found := _moving(claim, residents, rules)) is not None:
        return found
    ends, rested = _ending(claim, residents, rules)
    if not ends or (last := _moving(claim, rested, rules)) is None:
        return None
    return dataclasses.replace(last, verdict=Verdict.STEP, steps=(*last.steps, *(Step(one, Rung.HOT) for one in ends)))


def _moving(claim: Claim, residents: Sequence[Occupancy], rules: Rules) -> Decision | None:
    """As ``_way``, with the requests of pinned engines as they are."""
    for order in _orders(claim, residents, rules):
        found = Case(claim.need, residents, rules.budget, rules.policy, rules.unbooked, order).decide()
        if found.verdict in (Verdict.ADMIT, Verdict.STEP):
            return found
    return None


def _ending(claim: Claim, residents: Sequence[Occupancy], rules: Rules) -> tuple[list[str], list[Occupancy]]:
    """The pinned engines whose requests must end, and all engines behind that.

    No more than it needs: one that does not rest would hold the claim up. Such are spared first, and last those that
    make way already.
    """
    pinned = [one for one in residents if one.pinned and one.requests.total and one.id != claim.need.id]
    ends = {one.id for one in pinned}

    def behind(ended: Collection[str]) -> list[Occupancy]:
        return [one.at_rest() if one.id in ended else one for one in residents]

    if len(pinned) > 1 and _moving(claim, behind(ends), rules) is not None:
        for one in sorted(pinned, key=lambda one: (one.id in claim.way, one.rests, one.last_used)):
            if len(ends) > 1 and _moving(claim, behind(ends - {one.id}), rules) is not None:
                ends -= {one.id}
    return [one.id for one in pinned if one.id in ends], behind(ends)


def _orders(claim: Claim, residents: Sequence[Occupancy], rules: Rules) -> Iterator[tuple[str, ...]]:
    """Engines that may be asked, more of them each time.

    1. Idle ones past their grace time, least recently used first.
    2. All idle ones.
    3. One by one those in use: first who makes way already. Last are those with an answer that does not rest, and
       before them those that have not been hot for long.
    """
    idle = _idle(residents, claim.need)
    calm = [one.id for one in idle if one.may_step_down(rules.now, rules.policy)]
    # 1.
    yield tuple(calm)
    # 2.
    order = [one.id for one in idle]
    if len(order) > len(calm):
        yield tuple(order)
    # 3.
    used = [one for one in _others(residents, claim.need) if one.used]
    used.sort(key=lambda one: (one.id not in claim.way, one.lasts, one.kept(rules.now), not one.waits, one.last_used))
    for one in used:
        order.append(one.id)
        yield tuple(order)


def _others(residents: Sequence[Occupancy], need: Need) -> list[Occupancy]:
    """Engines that may make way, at work or not."""
    return [one for one in residents if one.id != need.id and not one.pinned and one.rung > Rung.COLD]


def _idle(residents: Sequence[Occupancy], need: Need) -> list[Occupancy]:
    """Engines that nobody uses and that may make way, least recently used first."""
    return sorted((one for one in _others(residents, need) if not one.used), key=lambda one: one.last_used)


def _stepping(found: Decision, residents: Sequence[Occupancy], rules: Rules) -> Turn:
    """The part of a way that can be taken now. Its savings come when nothing else is missing.

    Engines whose answers rest stay while another engine holds the request up.
    """
    ways = {step.id: step for step in found.steps}
    there = [one for one in residents if one.id in ways and (one.rung > ways[one.id].to or one.pinned)]
    free = [ways[one.id] for one in there if one.may_leave(rules.now)]
    until = min((one.hot_until for one in there if one.kept(rules.now)), default=None)
    if len(free) == len(there):
        decision = found if there or found.savings else dataclasses.replace(found, verdict=Verdict.WAIT, steps=())
    else:
        goes_on = {one.id for one in there if one.rests} if held_up(ways, residents) else set()
        steps = tuple(step for step in free if step.id not in goes_on)
        decision = dataclasses.replace(found, verdict=Verdict.STEP if steps else Verdict.WAIT, savings=(), steps=steps)
    return Turn(decision, found.steps, until)


def _raised(claim: Claim, residents: Sequence[Occupancy], assumed: Sequence[Occupancy]) -> Claim:
    """The same claim of an engine that will have stepped down for others, and so needs more."""
    name = claim.need.id
    held = next(one.held for one in residents if one.id == name)
    left = next(one.held for one in assumed if one.id == name)
    return dataclasses.replace(claim, need=dataclasses.replace(claim.need, amount=claim.need.amount + (held - left)))


def _served(one: Occupancy, need: Need, found: Decision) -> Occupancy:
    """An engine after a request is served: its own engine is hot and stays, those in its way have stepped down."""
    saved = Amount(private=sum(saving.private for saving in found.savings if saving.id == one.id))
    if one.id == need.id:
        # Who is served stays: later requests wait for its end.
        held = one.held + need.amount - saved
        return dataclasses.replace(one, rung=Rung.HOT, held=held, requests=NOTHING, pinned=True, savings=())
    if Step(one.id, Rung.HOT) in found.steps:
        one = one.at_rest()
    to = next((step.to for step in found.steps if step.id == one.id), one.rung)
    held = one.at(to) if to is not one.rung else one.held
    if to is one.rung:
        return dataclasses.replace(one, held=held - saved) if saved.private else one
    left = one.savings if to is Rung.WARM else ()
    return dataclasses.replace(one, rung=to, held=held - saved, savings=left, leases=0, busy=False, waits=False)
