"""The whole context of an engine that others' memory would make do with less, for requests that need it."""

from __future__ import annotations

import dataclasses

from edgeserve.engine import Rung
from edgeserve.jobs import INFO
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.amount import NOTHING, Amount
from edgeserve.memory.budget import budget
from edgeserve.memory.doubts import Doubts
from edgeserve.memory.entry import Entry, need_of
from edgeserve.memory.mover import Mover
from edgeserve.memory.occupancy import Occupancy
from edgeserve.memory.plan import Case, Decision, Verdict
from edgeserve.memory.terms import Terms
from edgeserve.system.probe import Probe


def needs_whole(entry: Entry, terms: Terms) -> bool:
    """Whether a request needs the whole context. What is left of a list asks for it only when it has less."""
    return terms.whole or (INFO[entry.resident.spec.job].reads_whole and not terms.resumed)


class WholeContext:
    """Calls on the worker thread of the engine that wants memory."""

    def __init__(self, accounts: Accounts, probe: Probe, mover: Mover, doubts: Doubts) -> None:
        self._accounts = accounts
        self._probe = probe
        self._mover = mover
        self._doubts = doubts

    def ask(self, entry: Entry, terms: Terms) -> None:
        """Have the engine come up with its whole context, where that fits.

        For a prompt it moves idle engines, and those whose answers rest soon. For texts that are read at once, it waits
        for all engines at work. Raises ShuttingDown.
        """
        if entry.hot is None:
            return
        waits = INFO[entry.resident.spec.job].reads_whole or terms.resumed
        decision = self._decide(entry, waits)
        if self._doubts.lower(entry, decision):
            decision = self._decide(entry, waits)
        entry.whole = decision.verdict is Verdict.WAIT
        if entry.whole and entry.shrunk:
            self._mover.step_down(entry, Rung.WARM, "memory_needed", leased=True)

    def _decide(self, entry: Entry, waits: bool) -> Decision:
        """As ``_look``. What seems never to fit may be the memory of an engine that moves: then look again."""
        while True:
            changes = self._accounts.changes
            decision = self._look(entry, waits)
            if decision.verdict is Verdict.WAIT or self._accounts.steady_since(changes):
                return decision
            self._accounts.pause(self._accounts.policy.switch_interval)

    def _look(self, entry: Entry, waits: bool) -> Decision:
        readings = self._probe.read_quick()
        optional = 0 if entry.resident.rung is Rung.HOT else sum(one.private for one in entry.optional())
        limit, accounts = budget(readings, self._accounts.policy), self._accounts
        with accounts.changed:
            entry.whole = True
            need = dataclasses.replace(need_of(entry), amount=entry.need + Amount(private=entry.shrunk - optional))
            unbooked, passing = accounts.beside(readings, limit)
            residents = accounts.occupancies(readings)
            if not waits:  # nothing of others may hold it for long: the engine is down meanwhile, and answers nobody
                passing, residents = 0, [_staying(one) if one.lasts else one for one in residents]
            return Case(need, residents, limit, accounts.policy, unbooked, passing=passing).wait_or_refuse()


def _staying(one: Occupancy) -> Occupancy:
    """The engine as if it could not make way, nor its requests end."""
    return dataclasses.replace(one, pinned=True, requests=NOTHING)
