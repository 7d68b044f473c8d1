"""Letting engines up: reserve before the climb, settle on what it really took, release when the request is over."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from types import TracebackType

from edgeserve.engine import Cancel, Footprint, Job, Rung
from edgeserve.errors import Busy, Cancelled, DoesNotFit
from edgeserve.jobs import INFO
from edgeserve.memory import refusal
from edgeserve.memory.accounts import Books
from edgeserve.memory.amount import NOTHING
from edgeserve.memory.budget import Budget, budget, text_warning, too_large, vision_refusal
from edgeserve.memory.entry import Entry
from edgeserve.memory.mover import Mover
from edgeserve.memory.plan import Decision, Need, Saving, Verdict
from edgeserve.system.probe import Probe
from edgeserve.system.readings import Readings
from edgeserve.units import GB, MB

log = logging.getLogger("edgeserve.memory")

MEASURE_EVERY = 30.0
"""Seconds between two measurements of a hot engine: its arenas may still grow."""


@dataclasses.dataclass(slots=True, eq=False)
class Reservation:
    """Bytes set aside for one request and, when the engine ``climbs``, for its way up to hot. Its context ends with
    ``give_back``."""

    entry: Entry
    before: Rung
    climbs: bool
    mark: int | None
    give_back: Callable[[Reservation], None]
    settled: bool = False
    told: bool = False
    """What it took was told by the caller, who knows better than the engine."""
    released: bool = False

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back(self)


class Admission:
    """Blocking calls, on the worker thread of the engine that wants memory."""

    def __init__(self, books: Books, probe: Probe, mover: Mover) -> None:
        self._books = books
        self._policy = books.policy
        self._probe = probe
        self._mover = mover

    def reserve_at_once(self, entry: Entry, readings: Readings, limit: Budget) -> Reservation | None:
        """For a hot engine whose request fits: no reading, no waiting. None when it is not so."""
        with self._books.changed:
            if entry.resident.rung is not Rung.HOT or entry.hot is None:
                return None
            decision = self._books.decide(need_of(entry), readings, limit)
            return self.book(entry) if decision.verdict is Verdict.ADMIT else None

    def reserve_if_free(self, entry: Entry) -> Reservation | None:
        """None unless it fits as things stand, by a fresh reading."""
        self.expect(entry)
        self.fit_optional_context(entry)
        readings = self._probe.glance()
        if too_large(entry.resident.spec, readings.total, self._policy):
            return None
        limit = budget(readings, self._policy)
        with self._books.changed:
            decision = self._books.decide(need_of(entry), readings, limit)
            return self.book(entry) if decision.verdict is Verdict.ADMIT else None

    def reserve(self, entry: Entry, cancel: Cancel | None = None) -> Reservation:
        """Make room as the plan says until it fits.

        Blocks while others step down, while their memory comes back, and at most ``queue_seconds`` while they are in
        use. Raises DoesNotFit, Busy or ShuttingDown; Cancelled within ``switch_interval`` of ``cancel``, and then moves
        nobody any more.
        """
        self.expect(entry)
        self._check_size(entry)
        self.fit_optional_context(entry)
        deadline = self._books.clock() + self._policy.queue_seconds
        busy: set[Job] = set()
        spent: set[tuple[Job, str]] = set()
        settled = True
        while True:
            _go_on(cancel)
            self._books.observe()
            readings = self._probe.glance()
            self._books.note_overhead(readings)
            limit = budget(readings, self._policy, settled=settled)
            with self._books.changed:
                decision = self._books.decide(need_of(entry), readings, limit, busy, spent)
                if decision.verdict is Verdict.ADMIT:
                    return self.book(entry)
            if decision.verdict is Verdict.STEP:
                settled = self._make_room(entry, decision, busy, spent, cancel) and settled
            elif decision.verdict is Verdict.WAIT and self._books.clock() < deadline:
                busy.clear()
                self._await_idle(decision, deadline)
            else:
                raise self._refusal(entry, decision, limit, readings)

    def expect(self, entry: Entry) -> None:
        """Know what it will take with all that is configured."""
        entry.expect(self._books.ledger)
        if entry.resident.rung is not Rung.HOT:
            entry.restore()

    def fit_optional_context(self, entry: Entry) -> None:
        """Before the way up: a context that may be as large as memory allows is cut to that, others left alone."""
        self._books.observe()
        if entry.resident.rung is Rung.HOT or not entry.optional_context:
            return
        readings = self._probe.glance()
        over = self._books.excess(entry, readings, budget(readings, self._policy))
        if over:
            self._mover.shed(Saving(entry.resident.job, "optional_context", over))

    def book(self, entry: Entry) -> Reservation:
        """Under the lock of the books."""
        before, mark = entry.resident.rung, self._books.stir(entry)
        entry.active += 1
        entry.uses += 1
        entry.climbing = before is not Rung.HOT
        return Reservation(entry, before, entry.climbing, mark, self.release)

    def settle(self, reservation: Reservation, measured: int | None) -> None:
        """The engine is hot: book what it takes and learn it. Restores the budget when that was more than expected."""
        entry = reservation.entry
        if reservation.settled or not reservation.climbs:
            reservation.settled = True
            return
        taken = entry.resident.footprint()
        with self._books.changed:
            expected = entry.held.total
            entry.blurred = measured is None and not self._books.undisturbed(reservation.mark)
            if not entry.blurred or entry.source == "unknown":
                self._measure(entry, still_to_come(taken, entry.hot) if measured is None else taken, measured)
            entry.climbing, entry.seen, reservation.settled = False, Rung.HOT, True
            reservation.told = measured is not None
            self._books.restored(reservation.before)
            overdrawn = entry.held.total > expected
            self._books.changed.notify_all()
        if measured is not None:
            self._learn(entry)
        if overdrawn:
            self._restore_budget(entry)

    def release(self, reservation: Reservation) -> None:
        """The request's bytes return; all of them when the engine did not become hot. Idempotent."""
        entry = reservation.entry
        with self._books.changed:
            if reservation.released:
                return
            reservation.released = True
            entry.active -= 1
            if reservation.climbs and not reservation.settled:
                entry.climbing = False
            self._books.changed.notify_all()
        due = (reservation.climbs and not reservation.told) or self._books.clock() - entry.measured_at >= MEASURE_EVERY
        if reservation.settled and due and not entry.blurred and entry.resident.rung is Rung.HOT:
            taken = entry.resident.footprint()
            with self._books.changed:
                self._measure(entry, taken)
            self._learn(entry)
            self._books.note_overhead(self._probe.glance())

    def _measure(self, entry: Entry, taken: Footprint, measured: int | None = None) -> None:
        entry.measure(taken, measured)
        entry.measured_at = self._books.clock()

    def _learn(self, entry: Entry) -> None:
        if entry.hot is not None and entry.source == "measured" and entry.full is None:
            self._books.ledger.learn(entry.resident.spec, entry.hot)

    def _make_room(
        self,
        entry: Entry,
        decision: Decision,
        busy: set[Job],
        spent: set[tuple[Job, str]],
        cancel: Cancel | None,
    ) -> bool:
        """Save, or where nothing is left to save, step down. False when freed memory did not come back in time."""
        for saving in decision.savings:
            spent.add((saving.job, saving.kind))
            self._mover.shed(saving)
        if decision.savings:
            return True
        moved = False
        for step in decision.steps:
            if self._mover.step_down(self._books[step.job], step.to, "memory_needed") is None:
                busy.add(step.job)
            else:
                moved = True
        return self._await_release(entry, cancel) if moved else True

    def _await_release(self, entry: Entry, cancel: Cancel | None) -> bool:
        """The switch gate: memory given back may come late, so poll until it is there before the next load.

        Not when more must go first: an engine may keep more on warm than was known before it went there.
        """
        need = entry.need.host
        wanted = min(INFO[entry.resident.job].switch_bytes or need, need)
        deadline = self._books.clock() + self._policy.switch_timeout
        while (readings := self._probe.glance()).available < wanted:
            if not self._books.admits(need_of(entry), budget(readings, self._policy, settled=False)):
                return True
            if self._books.clock() >= deadline:
                text = "%s needs %.2f GB; only %.2f GB are available %g s after others were moved down; going on"
                name = entry.resident.spec.name
                log.warning(text, name, wanted / GB, readings.available / GB, self._policy.switch_timeout)
                return False
            self._books.pause(self._policy.switch_interval)
            _go_on(cancel)
        return True

    def _await_idle(self, decision: Decision, deadline: float) -> None:
        """Until something changes, a grace time ends, or the next look: leases end without our knowing."""
        now = self._books.clock()
        until = min(deadline, now + self._policy.switch_interval, decision.retry_at or deadline)
        self._books.pause(max(0.01, until - now))

    def _check_size(self, entry: Entry) -> None:
        """The 70% rule: vision is refused, everything else warned about."""
        spec, total = entry.resident.spec, self._probe.latest().total
        if entry.resident.rung is Rung.HOT or not too_large(spec, total, self._policy):
            return
        if INFO[spec.job].pictures:
            raise DoesNotFit(vision_refusal(spec, total, self._policy))
        log.warning("%s", text_warning(spec, total, self._policy))

    def _refusal(self, entry: Entry, decision: Decision, limit: Budget, readings: Readings) -> DoesNotFit | Busy:
        need = need_of(entry)
        if decision.verdict is Verdict.WAIT:
            text = refusal.in_use(need, decision, limit, self._policy.queue_seconds)
            return Busy(text, retry_after=max(1.0, self._policy.grace_seconds))
        others = [one for one in self._books if one is not entry]
        pinned = [one.resident.job for one in others if one.resident.pinned and one.held.host]
        return DoesNotFit(refusal.does_not_fit(need, decision, limit, readings, pinned, self._policy))

    def _restore_budget(self, entry: Entry) -> None:
        """It took more than was expected: idle engines make room after the fact."""
        self._books.observe()
        readings = self._probe.glance()
        limit = budget(readings, self._policy)
        nothing = Need(entry.resident.job, entry.resident.spec.name, NOTHING)
        with self._books.changed:
            decision = self._books.decide(nothing, readings, limit)
        for step in decision.steps:
            self._mover.step_down(self._books[step.job], step.to, "memory_needed")
        if decision.verdict in (Verdict.WAIT, Verdict.REFUSE):
            text = "%s took %d MB, more than expected; the budget of %d MB (%s) is overdrawn until others are idle"
            log.warning(text, nothing.name, entry.held.total // MB, limit.usable // MB, limit.winner)


def still_to_come(taken: Footprint, expected: Footprint | None) -> Footprint:
    """Right after the climb, most mapped weights may not have been touched yet: the first request brings them in."""
    mapped = max(taken.mapped, expected.mapped if expected else 0)
    return dataclasses.replace(taken, mapped=mapped)


def _go_on(cancel: Cancel | None) -> None:
    """Raises Cancelled when nobody wants the memory any more."""
    if cancel is not None and cancel.is_set():
        raise Cancelled("the request was cancelled while it waited for memory")


def need_of(entry: Entry) -> Need:
    return Need(entry.resident.job, entry.resident.spec.name, entry.need)
