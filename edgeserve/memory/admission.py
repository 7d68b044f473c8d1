"""Admission of engines: a request gets its memory at once, or in its turn among those that wait for memory."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable

from edgeserve.engine import Rung
from edgeserve.errors import Busy, DoesNotFit
from edgeserve.jobs import INFO
from edgeserve.memory import refusal
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.amount import NOTHING
from edgeserve.memory.budget import Budget, budget, text_warning, too_large, vision_refusal
from edgeserve.memory.doubts import Doubts
from edgeserve.memory.entry import Entry, need_of
from edgeserve.memory.history import in_mb
from edgeserve.memory.mover import Mover
from edgeserve.memory.occupancy import WHOLE, Need
from edgeserve.memory.plan import Decision, Verdict
from edgeserve.memory.remains import Remains
from edgeserve.memory.reservations import Reservation, Reservations
from edgeserve.memory.switch import Attempt, Switch
from edgeserve.memory.terms import Terms
from edgeserve.memory.traffic import own
from edgeserve.memory.urging import Urging
from edgeserve.memory.way import Turn, held_up
from edgeserve.memory.whole import WholeContext, needs_whole
from edgeserve.system.probe import Probe
from edgeserve.system.readings import Readings
from edgeserve.units import MB

log = logging.getLogger("edgeserve.memory")

STUCK = 600.0
"""Seconds without a step after which answers under way count as stuck, as for the processes of workers.

A slow box may take minutes to open a model, or for a step of a long prompt."""


class Admission:
    """Blocking calls, on the worker thread of the engine that wants memory."""

    def __init__(self, accounts: Accounts, probe: Probe, mover: Mover, trim: Callable[[], object]) -> None:
        self._accounts = accounts
        self._probe = probe
        self._mover = mover
        self._switch = Switch(accounts, probe, mover)
        self.reservations = Reservations(accounts, probe)
        self._remains = Remains(accounts, mover, trim)
        self._urging = Urging(accounts)
        self._doubts = Doubts(accounts, mover)
        self._whole = WholeContext(accounts, probe, mover, self._doubts)

    def reserve_at_once(
        self, entry: Entry, readings: Readings, limit: Budget, whole: bool = False
    ) -> Reservation | None:
        """Reserve for a hot engine whose request fits, else None. Reads nothing and waits for nothing.

        None also for an engine in the way of requests that wait for memory: it admits nothing new. And for one with
        less than its whole context, where a request needs the ``whole``.
        """
        with self._accounts.changed:
            if entry.resident.rung is not Rung.HOT or entry.hot is None or (whole and entry.shrunk):
                return None
            return self._admit(entry, self._accounts.turn(entry, readings, limit))

    def reserve_if_free(self, entry: Entry) -> Reservation | None:
        """Reserve when the need fits with nothing moved and nobody kept waiting, by a fresh reading; else None."""
        self.expect(entry)
        self.fit_optional_memory(entry)
        readings = self._probe.read_quick()
        if too_large(entry.resident.spec, readings.total, self._accounts.policy):
            return None
        limit = budget(readings, self._accounts.policy)
        with self._accounts.changed:
            return self._admit(entry, self._accounts.turn(entry, readings, limit))

    def reserve(self, entry: Entry, terms: Terms) -> Reservation:
        """Make room by the plan until the need fits; in its turn, when others wait for memory too.

        Blocks while engines in the way finish their answers and step down, while their memory comes back, and while
        requests ahead have their turn. Raises DoesNotFit, ShuttingDown, and Cancelled within ``switch_interval`` of
        ``cancel``; a cancelled request moves no engine. Raises Busy after ``queue_seconds`` in which no answer is under
        way and no engine moves, and when answers under way are stuck.
        """
        try:
            if needs_whole(entry, terms):
                self.expect(entry)
                self._whole.ask(entry, terms)
            return self._reserve(entry, terms)
        except (DoesNotFit, Busy) as error:
            needed = in_mb(entry.need.total)
            self._accounts.timeline.note_rarely("refusal", entry.resident.id, needed_mb=needed, why=error.message)
            raise
        finally:
            entry.whole = False

    def _reserve(self, entry: Entry, terms: Terms) -> Reservation:
        self._prepare(entry, terms)
        now = self._accounts.clock()
        arrived = now if terms.arrived is None else terms.arrived
        attempt = Attempt(entry, terms, arrived, self._accounts.life(), now)
        try:
            while True:
                attempt.check_wanted()
                reservation = self._try(attempt)
                if reservation is not None:
                    if attempt.ticket is not None:
                        waited = self._accounts.clock() - now
                        log.info("%s waited %.2f s for memory", entry.resident.spec.name, waited)
                    return reservation
        finally:
            with self._accounts.changed:
                if attempt.ticket is not None:
                    self._accounts.tickets.drop(attempt.ticket)
                    self._accounts.stir()

    def _try(self, attempt: Attempt) -> Reservation | None:
        """One look, and one act that brings the need nearer."""
        entry = attempt.entry
        self._accounts.observe()
        changes, readings = self._accounts.changes, self._probe.read_quick()
        self._accounts.note_overhead(readings)
        limit = budget(readings, self._accounts.policy, settled=attempt.settled)
        with self._accounts.changed:
            turn, steady = self._look(attempt, readings, limit), self._accounts.steady_since(changes)
            if (reservation := self._admit(entry, turn)) is not None:
                return reservation
        if turn.decision.verdict is Verdict.STEP:
            self._switch.make_room(attempt, turn.decision)
        elif turn.decision.verdict is Verdict.YIELD:
            self._switch.make_way(attempt, turn.decision)
            self._prepare(entry, attempt.terms)
        elif steady and (self._remains.clear(attempt, turn, readings) or self._doubts.lower(entry, turn.decision)):
            self._prepare(entry, attempt.terms)
        elif not steady or (turn.decision.verdict is Verdict.WAIT and not self._stalled(attempt)):
            self._urging.urge(attempt, turn)
            attempt.busy.clear()
            self._await_change(attempt, turn)
        else:
            raise self._refusal(attempt, turn.decision, limit, readings)
        return None

    def _look(self, attempt: Attempt, readings: Readings, limit: Budget) -> Turn:
        """The decision now. A request that is not admitted at once takes a ticket. The caller holds the lock."""
        entry, accounts = attempt.entry, self._accounts
        if not attempt.busy:  # else an engine may have come free since it refused to move: then look again at once
            attempt.seen = accounts.stirred
        turn = accounts.turn(entry, readings, limit, attempt.ticket, attempt.busy, attempt.spent)
        if attempt.ticket is None and turn.decision.verdict is not Verdict.ADMIT:
            attempt.ticket = accounts.tickets.take(entry.resident.id, attempt.arrived, entry.hot_at)
            turn = accounts.turn(entry, readings, limit, attempt.ticket, attempt.busy, attempt.spent)
        if attempt.ticket is not None:
            attempt.ticket.way = frozenset(step.id for step in turn.way)
            attempt.ticket.spent = frozenset(attempt.spent)
        return turn

    def _admit(self, entry: Entry, turn: Turn) -> Reservation | None:
        """The caller holds the lock."""
        return self.reservations.book(entry) if turn.decision.verdict is Verdict.ADMIT else None

    def _stalled(self, attempt: Attempt) -> bool:
        """True when nothing has moved for too long."""
        now, life = self._accounts.clock(), self._accounts.life()
        if life != attempt.progress:
            attempt.progress, attempt.progressed_at = life, now
        return now - attempt.progressed_at >= self._patience(attempt)

    def _patience(self, attempt: Attempt) -> float:
        """Seconds without progress after which a request is refused."""
        at_work = any(one.active for one in self._accounts if one is not attempt.entry)
        seconds = self._accounts.policy.queue_seconds
        return max(STUCK, seconds) if at_work or attempt.terms.resumed else seconds

    def _await_change(self, attempt: Attempt, turn: Turn) -> None:
        """Wait until memory may have come free or a hot time ends, at most for the interval."""
        now = self._accounts.clock()
        until = [
            now + self._accounts.policy.switch_interval,
            attempt.progressed_at + self._patience(attempt),
        ]
        if turn.until is not None:
            until.append(turn.until)
        self._accounts.pause(max(0.01, min(until) - now), attempt.seen)

    def _prepare(self, entry: Entry, terms: Terms) -> None:
        if terms.resumed and not terms.whole:  # what follows may need the context that the answer had
            entry.whole = True
            return
        self.expect(entry)
        self._check_size(entry)
        self.fit_optional_memory(entry)

    def expect(self, entry: Entry) -> None:
        """Before a reservation: know the engine's memory with everything that is configured."""
        entry.expect(self._accounts.peaks)
        if entry.resident.rung is not Rung.HOT:
            entry.restore()

    def fit_optional_memory(self, entry: Entry) -> None:
        """Before the way up: cut optional memory to the room that there is.

        A reordered copy of the weights, and a draft model, is whole or not there. A context of automatic size loses
        the excess only.
        """
        self._accounts.observe()
        if entry.resident.rung is Rung.HOT:
            return
        for saving in entry.optional():
            readings = self._probe.read_quick()
            limit = budget(readings, self._accounts.policy)
            if excess := self._accounts.excess(entry, saving, readings, limit):
                size = saving.private if saving.kind in WHOLE else excess
                self._mover.shed(dataclasses.replace(saving, private=size))

    def in_the_way(self, name: str) -> bool:
        """Whether an engine is to make way for requests that wait for memory, its hot time over. Reads nothing.

        A request that an answer of another engine holds up needs none yet.
        """
        if not self._accounts.tickets:  # as nearly always
            return False
        with self._accounts.changed:
            entry = self._accounts.find(name)
            if entry is None or self._accounts.clock() < entry.hot_until:
                return False
            residents = self._accounts.occupancies()
            return any(name in one.way and not held_up(one.way - {name}, residents) for one in self._accounts.tickets)

    def settle(self, reservation: Reservation, measured: int | None) -> None:
        """The engine is hot: book and learn its memory. Idle engines make room when it took more than expected."""
        if self.reservations.settle(reservation, measured):
            self._restore_budget(reservation.entry)

    def _check_size(self, entry: Entry) -> None:
        """The 70% rule: a vision model is refused, any other logs a warning."""
        spec, total = entry.resident.spec, self._probe.latest().total
        if entry.resident.rung is Rung.HOT or not too_large(spec, total, self._accounts.policy):
            return
        if INFO[spec.job].pictures:
            raise DoesNotFit(vision_refusal(spec, total, self._accounts.policy))
        log.warning("%s", text_warning(spec, total, self._accounts.policy))

    def _refusal(self, attempt: Attempt, decision: Decision, limit: Budget, readings: Readings) -> DoesNotFit | Busy:
        entry, need = attempt.entry, need_of(attempt.entry)
        if decision.verdict is Verdict.WAIT:
            passing = self._accounts.passing_of_others(readings)
            text = refusal.in_use(need, decision, limit, self._patience(attempt), passing)
            return Busy(text, retry_after=max(1.0, self._accounts.policy.grace_seconds))
        others = [one for one in self._accounts if one is not entry]
        pinned = [one.resident.id for one in others if one.resident.pinned and one.held.host]
        policy = self._accounts.policy
        return DoesNotFit(refusal.does_not_fit(need, decision, limit, readings, pinned, policy, own.get().held))

    def _restore_budget(self, entry: Entry) -> None:
        """The engine took more than expected: idle engines make room after the fact."""
        self._accounts.observe()
        readings = self._probe.read_quick()
        limit = budget(readings, self._accounts.policy)
        nothing = Need(entry.resident.id, entry.resident.spec.name, NOTHING)
        with self._accounts.changed:
            decision = self._accounts.decide(nothing, readings, limit)
        for step in decision.steps:
            if (other := self._accounts.find(step.id)) is not None:
                self._mover.step_down(other, step.to, "memory_needed")
        if decision.verdict in (Verdict.WAIT, Verdict.REFUSE):
            text = "%s took %d MB, more than expected; the budget of %d MB (%s) is overdrawn until others are idle"
            log.warning(text, nothing.name, entry.held.total // MB, limit.usable // MB, limit.winner)
