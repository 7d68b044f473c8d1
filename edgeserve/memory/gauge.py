"""Readings of memory judged by the policy: budget, share in use, and pressure level."""

from __future__ import annotations

import dataclasses

from edgeserve.dataclass import dataclass
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.amount import NOTHING, Amount
from edgeserve.memory.budget import Budget, budget
from edgeserve.memory.entry import Entry, need_of
from edgeserve.memory.plan import Case
from edgeserve.memory.pressure import Level, level_of, used_percent
from edgeserve.system.probe import Probe
from edgeserve.system.readings import Readings


@dataclass(frozen=True, slots=True)
class Judgement:
    """One reading with the budget drawn from it and the level of its pressure. ``percent`` of the budget is in use."""

    readings: Readings
    budget: Budget
    percent: float
    level: Level


@dataclass(frozen=True, slots=True)
class Situation(Judgement):
    """A judgement, and the memory that all engines hold by the accounts."""

    booked: Amount


class Gauge:
    """Any thread."""

    def __init__(self, accounts: Accounts, probe: Probe) -> None:
        self._accounts = accounts
        self._probe = probe
        self._latest: Judgement | None = None

    def latest(self) -> Judgement:
        """The latest reading, judged once: every request asks for it, and steps of answers. Never waits for another."""
        readings, last = self._probe.known(), self._latest
        if last is None or last.readings is not readings:
            last = self._latest = self.judge(readings)
        return last

    def judge(self, readings: Readings) -> Judgement:
        limit = budget(readings, self._accounts.policy)
        percent = used_percent(readings, limit)
        return Judgement(readings, limit, percent, level_of(percent, readings, self._accounts.policy))

    def has_room_in_place(self, entry: Entry) -> bool:
        """Whether a request of an engine at work fits in the place of another, by the latest reading.

        So it does where all that is booked fits. It would else wait, and keep the other from going on.
        """
        now, accounts = self.latest(), self._accounts
        with accounts.changed:
            unbooked, _ = accounts.beside(now.readings, now.budget)
            nothing = dataclasses.replace(need_of(entry), amount=NOTHING)
            residents = accounts.occupancies(now.readings)
            return Case(nothing, residents, now.budget, accounts.policy, unbooked).fits({}, 0)

    def situation(self, readings: Readings) -> Situation:
        """Takes the lock of the accounts."""
        with self._accounts.changed:
            booked = self._accounts.booked()
        now = self.judge(readings)
        return Situation(now.readings, now.budget, now.percent, now.level, booked)
