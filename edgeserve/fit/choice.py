"""The choice among models: which fit, which are quick enough, and which run together. Pure functions.

The governor's own plan decides what fits (memory/plan.py), with the budget of the machine (memory/budget.py).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from edgeserve.dataclass import dataclass
from edgeserve.engine import Rung
from edgeserve.fit.memory import Expected
from edgeserve.fit.speed import Speed
from edgeserve.jobs import INFO, Job
from edgeserve.memory.amount import NOTHING, Amount, per_request, without_requests
from edgeserve.memory.budget import Budget, budget, larger_than_share
from edgeserve.memory.occupancy import Need, Occupancy
from edgeserve.memory.plan import Decision, Verdict, plan
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.models.entry import Entry
from edgeserve.system.readings import Readings
from edgeserve.terminal import human_size
from edgeserve.units import MB

SERVER = 40 * MB
"""Private memory of the serving process beside its engines: 54 MB at the start, less the chat model that is open then
(docs/benchmarks/memory_scenarios.md)."""
LEAST: Mapping[str, float] = {"tokens/s": 5.0, "times real time": 2.0}
"""Speeds below which a model is called slow. People read about four words a second, which are five tokens."""
READS = 50.0
"""Tokens a second that a model of vectors or ranks must read."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A model for its job.

    ``speed`` None: not known. ``disk``: free bytes where it would be pulled to. ``lacks``: packages that it runs with
    and that are not installed.
    """

    job: Job
    entry: Entry
    memory: Expected
    speed: Speed | None
    pulled: bool = False
    disk: int | None = None
    lacks: str = ""

    @property
    def amount(self) -> Amount:
        """Memory of the hot engine with one request."""
        return without_requests(self.memory.footprint) + per_request(self.memory.footprint)

    @property
    def rank(self) -> tuple[int, int]:
        """Larger is better: among models of one job, more parameters answer better. A model without a count of them
        ranks by its size."""
        return self.entry.parameters or self.entry.size_bytes, self.entry.size_bytes


@dataclass(frozen=True, slots=True)
class Judged:
    """A candidate with the verdict. ``reason``: why it does not suit; empty when it does. ``best`` of its job."""

    candidate: Candidate
    fits: bool
    reason: str = ""
    best: bool = False

    @property
    def suits(self) -> bool:
        return not self.reason


@dataclass(frozen=True, slots=True)
class Box:
    """The machine: its memory now, and the settings that divide it."""

    readings: Readings
    policy: MemoryPolicy

    @property
    def budget(self) -> Budget:
        """The budget of all engines, whatever other programs take just now."""
        return budget(self.readings, self.policy, settled=False)

    def decide(self, need: Candidate, beside: Iterable[Candidate] = ()) -> Decision:
        """The governor's decision on ``need`` while the others are at work, none of which steps down."""
        residents = [_resident(one, Rung.HOT, one.amount) for one in beside]
        own = _resident(need, Rung.COLD, NOTHING)
        asked = Need(own.id, need.entry.name, need.amount)
        return plan(asked, [own, *residents], self.readings, self.budget, 0.0, self.policy, base=SERVER)

    def holds(self, together: Sequence[Candidate]) -> bool:
        """Whether all of them fit at once, each with a request."""
        first, *others = together
        return self.decide(first, others).verdict is Verdict.ADMIT


def _resident(one: Candidate, rung: Rung, held: Amount) -> Occupancy:
    return Occupancy(one.entry.name, one.entry.name, rung, held, pinned=rung is Rung.HOT)


def judge(candidates: Iterable[Candidate], box: Box) -> list[Judged]:
    """The candidates, job by job: those that suit first, the best of them at the top; then the smallest first."""
    judged = []
    order = list(INFO)
    for _, group in itertools.groupby(sorted(candidates, key=lambda one: order.index(one.job)), lambda one: one.job):
        found = [_judged(one, box) for one in group]
        good = sorted((one for one in found if one.suits), key=lambda one: one.candidate.rank, reverse=True)
        rest = sorted((one for one in found if not one.suits), key=lambda one: one.candidate.entry.size_bytes)
        judged += [replace(one, best=one is good[0]) for one in good] + rest
    return judged


def _judged(one: Candidate, box: Box) -> Judged:
    decision = box.decide(one)
    if decision.verdict is not Verdict.ADMIT:
        return Judged(one, False, f"needs {human_size(one.amount.total)}; at most {human_size(decision.largest)} fit")
    if INFO[one.job].pictures and larger_than_share(one.entry.size_bytes, box.readings.total, box.policy):
        return Judged(one, False, f"larger than {box.policy.vision_threshold:.0%} of the memory")
    if not one.pulled and one.disk is not None and one.entry.size_bytes > one.disk:
        return Judged(one, True, f"the disk has {human_size(one.disk)} free")
    if one.lacks:
        return Judged(one, True, f"needs {one.lacks}")
    return Judged(one, True, "" if quick(one) else "slow here")


def quick(one: Candidate) -> bool:
    """Whether people need not wait for it; True where nothing is known of its speed."""
    if one.speed is None:
        return True
    least = READS if one.job not in ("llm", "vision", "asr") else LEAST[one.speed.unit]
    return one.speed.answer >= least


def together(judged: Sequence[Judged], box: Box) -> list[Candidate]:
    """One model a job, all at work at once: the best that fit beside each other, in the order of the jobs.

    Every job starts with its smallest suitable model. A job whose smallest does not fit beside those before it is left
    out. Then each in turn moves up to its next better model while all fit, until none can.
    """
    ladders: dict[Job, list[Candidate]] = {}
    for one in reversed([one for one in judged if one.suits]):
        ladders.setdefault(one.candidate.job, []).append(one.candidate)
    steps: dict[Job, int] = {}
    for job in (job for job in INFO if job in ladders):
        if box.holds([*(ladders[other][0] for other in steps), ladders[job][0]]):
            steps[job] = 0
    moving = list(steps)
    while moving:
        for job in tuple(moving):
            higher = ({**steps, job: step} for step in range(steps[job] + 1, len(ladders[job])))
            found = next((each for each in higher if box.holds([ladders[one][at] for one, at in each.items()])), None)
            if found is None:
                moving.remove(job)
            else:
                steps = found
    return [ladders[job][step] for job, step in steps.items()]
