"""The switch from some engines to another: the steps that the plan asks for, and the wait for their memory."""

from __future__ import annotations

import dataclasses
import logging
import math

from edgeserve.dataclass import dataclass
from edgeserve.errors import Cancelled
from edgeserve.jobs import INFO
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.budget import budget
from edgeserve.memory.entry import Entry, need_of
from edgeserve.memory.mover import Mover
from edgeserve.memory.plan import Decision
from edgeserve.memory.terms import Terms
from edgeserve.memory.tickets import Ticket
from edgeserve.system.probe import Probe
from edgeserve.units import GB

log = logging.getLogger("edgeserve.memory")

FIRST_LOOK = 0.01
"""Seconds until the switch gate looks for the second time; each further wait is twice as long, up to the interval."""


@dataclass(slots=True, eq=False)
class Attempt:
    """One request on its way to memory.

    Fields:
        terms     those of the request
        arrived   when it came, on the accounts' clock
        ticket    its place among those that wait, once it waits
        busy      engines that could not be moved a moment ago
        spent     savings that gave nothing
        settled   False once returned memory did not show up in time
        seen      ``Accounts.stirred`` at the latest look
        trims     returns of free pages before this one, once it wants one
        cleared   True once idle engines have returned what requests may have left
        parked    True once its own engine has
        drained   True once all others make way, or have
        urged_at  when it last had slow senders and readers cut, for whose bytes alone it waits
        progress, progressed_at  ``Accounts.life``, and the time when it changed last
    """

    entry: Entry
    terms: Terms
    arrived: float
    progress: object
    progressed_at: float
    ticket: Ticket | None = None
    busy: set[str] = dataclasses.field(default_factory=set)
    spent: set[tuple[str, str]] = dataclasses.field(default_factory=set)
    settled: bool = True
    seen: int = 0
    trims: int | None = None
    cleared: bool = False
    parked: bool = False
    drained: bool = False
    urged_at: float = -math.inf

    def check_wanted(self) -> None:
        """Raises Cancelled for a request that was cancelled while it waited."""
        if self.terms.cancel is not None and self.terms.cancel.is_set():
            raise Cancelled("the request was cancelled while it waited for memory")


class Switch:
    """Blocking calls, on the worker thread of the engine that wants memory."""

    def __init__(self, accounts: Accounts, probe: Probe, mover: Mover) -> None:
        self._accounts = accounts
        self._probe = probe
        self._mover = mover

    def make_room(self, attempt: Attempt, decision: Decision) -> None:
        """Carry out the savings of a decision, or its steps down. Raises Cancelled and ShuttingDown."""
        for saving in decision.savings:
            if not self._mover.shed(saving):
                attempt.spent.add((saving.id, saving.kind))
        if decision.savings:
            return
        moved = False
        for step in decision.steps:
            other = self._accounts.find(step.id)
            if other is not None and self._mover.step_down(other, step.to, "memory_needed", leased=True) is None:
                attempt.busy.add(step.id)
            else:
                moved = True
        if moved:
            attempt.settled = self._await_release(attempt) and attempt.settled

    def make_way(self, attempt: Attempt, decision: Decision) -> None:
        """The engine of the request steps down for a request ahead. Raises ShuttingDown."""
        (step,) = decision.steps
        if self._mover.step_down(attempt.entry, step.to, "memory_needed") is None:
            self._accounts.pause(self._accounts.policy.switch_interval)  # it failed, and may do better

    def _await_release(self, attempt: Attempt) -> bool:
        """The switch gate: returned memory may arrive late, so poll until it is available. False after the timeout.

        True at once when more engines must go first: one may keep more on warm than was known before it went there.
        """
        entry = attempt.entry
        need = entry.need.host
        wanted = min(INFO[entry.resident.spec.job].switch_bytes or need, need)
        deadline, pause = self._accounts.clock() + self._accounts.policy.switch_timeout, FIRST_LOOK
        while (readings := self._probe.read_quick()).available < wanted:
            if not self._accounts.admits(need_of(entry), budget(readings, self._accounts.policy, settled=False)):
                return True
            left = deadline - self._accounts.clock()
            if left <= 0:
                text = "%s needs %.2f GB; only %.2f GB are available %g s after others were moved down; going on"
                name = entry.resident.spec.name
                log.warning(text, name, wanted / GB, readings.available / GB, self._accounts.policy.switch_timeout)
                return False
            self._accounts.pause(min(pause, left, self._accounts.policy.switch_interval))
            pause *= 2
            attempt.check_wanted()
        return True
