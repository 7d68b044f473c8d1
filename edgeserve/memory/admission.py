"""Admission of engines: reserve before the way up, settle on the measured memory, release when the request ends."""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Callable
from types import TracebackType

from edgeserve.engine import Cancel, Footprint, Rung
from edgeserve.errors import Busy, Cancelled, DoesNotFit
from edgeserve.jobs import INFO
from edgeserve.memory import refusal
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.amount import NOTHING
from edgeserve.memory.budget import Budget, budget, text_warning, too_large, vision_refusal
from edgeserve.memory.entry import Entry, need_of
from edgeserve.memory.mover import Mover
from edgeserve.memory.occupancy import Need, Saving
from edgeserve.memory.plan import Decision, Verdict
from edgeserve.system.probe import Probe
from edgeserve.system.readings import Readings
from edgeserve.units import GB, MB

log = logging.getLogger("edgeserve.memory")

MEASURE_EVERY = 30.0
"""Seconds between two measurements of a hot engine, whose arenas may still grow."""


@dataclasses.dataclass(slots=True, eq=False)
class Reservation:
    """Bytes set aside for one request and, when the engine ``climbs``, for its way up to hot.

    ``mark``: as ``Accounts.begin_change`` returned it. The context of a reservation ends with ``give_back``."""

    entry: Entry
    before: Rung
    climbs: bool
    mark: int | None
    give_back: Callable[[Reservation], None]
    settled: bool = False
    measured: bool = False
    """The caller measured the engine's memory, so that the engine is not asked again."""
    released: bool = False

    def __enter__(self) -> Reservation:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.give_back(self)


class Admission:
    """Blocking calls, on the worker thread of the engine that wants memory."""

    def __init__(self, accounts: Accounts, probe: Probe, mover: Mover) -> None:
        self._accounts = accounts
        self._policy = accounts.policy
        self._probe = probe
        self._mover = mover

    def reserve_at_once(self, entry: Entry, readings: Readings, limit: Budget) -> Reservation | None:
        """Reserve for a hot engine whose request fits, else None. Reads nothing and waits for nothing."""
        with self._accounts.changed:
            if entry.resident.rung is not Rung.HOT or entry.hot is None:
                return None
            decision = self._accounts.decide(need_of(entry), readings, limit)
            return self.book(entry) if decision.verdict is Verdict.ADMIT else None

    def reserve_if_free(self, entry: Entry) -> Reservation | None:
        """Reserve when the need fits with nothing moved, by a fresh reading; else None."""
        self.expect(entry)
        self.fit_optional_context(entry)
        readings = self._probe.read_quick()
        if too_large(entry.resident.spec, readings.total, self._policy):
            return None
        limit = budget(readings, self._policy)
        with self._accounts.changed:
            decision = self._accounts.decide(need_of(entry), readings, limit)
            return self.book(entry) if decision.verdict is Verdict.ADMIT else None

    def reserve(self, entry: Entry, cancel: Cancel | None = None) -> Reservation:
        """Make room by the plan until the need fits.

        Blocks while others step down, while their memory comes back, and at most ``queue_seconds`` while they are in
        use. Raises DoesNotFit, Busy or ShuttingDown; Cancelled within ``switch_interval`` of ``cancel``. A cancelled
        request moves no engine.
        """
        self.expect(entry)
        self._check_size(entry)
        self.fit_optional_context(entry)
        deadline = self._accounts.clock() + self._policy.queue_seconds
        busy: set[str] = set()
        spent: set[tuple[str, str]] = set()
        settled = True
        while True:
            _check_cancelled(cancel)
            self._accounts.observe()
            readings = self._probe.read_quick()
            self._accounts.note_overhead(readings)
            limit = budget(readings, self._policy, settled=settled)
            with self._accounts.changed:
                decision = self._accounts.decide(need_of(entry), readings, limit, busy, spent)
                if decision.verdict is Verdict.ADMIT:
                    return self.book(entry)
            if decision.verdict is Verdict.STEP:
                settled = self._make_room(entry, decision, busy, spent, cancel) and settled
            elif decision.verdict is Verdict.WAIT and self._accounts.clock() < deadline:
                self._cut_unread(entry, readings, limit)
                busy.clear()
                self._await_idle(decision, deadline)
            else:
                raise self._refusal(entry, decision, limit, readings)

    def expect(self, entry: Entry) -> None:
        """Before a reservation: know the engine's memory with everything that is configured."""
        entry.expect(self._accounts.peaks)
        if entry.resident.rung is not Rung.HOT:
            entry.restore()

    def fit_optional_context(self, entry: Entry) -> None:
        """Before the way up: cut a context that is configured as large as memory allows to the room that there is."""
        self._accounts.observe()
        if entry.resident.rung is Rung.HOT or not entry.optional_context:
            return
        readings = self._probe.read_quick()
        excess = self._accounts.excess(entry, readings, budget(readings, self._policy))
        if excess:
            self._mover.shed(Saving(entry.resident.id, "optional_context", excess))

    def book(self, entry: Entry) -> Reservation:
        """Open a reservation. The caller holds the lock of the accounts."""
        before, mark = entry.resident.rung, self._accounts.begin_change(entry)
        entry.active += 1
        entry.uses += 1
        entry.climbing = before is not Rung.HOT
        return Reservation(entry, before, entry.climbing, mark, self.release)

    def settle(self, reservation: Reservation, measured: int | None) -> None:
        """The engine is hot: book and learn its memory. Idle engines make room when it took more than expected."""
        entry = reservation.entry
        if reservation.settled or not reservation.climbs:
            reservation.settled = True
            return
        taken = entry.resident.footprint()
        with self._accounts.changed:
            expected = entry.held.total
            entry.inexact = measured is None and not self._accounts.unchanged_since(reservation.mark)
            if not entry.inexact or entry.source == "unknown":
                self._measure(entry, with_expected_weights(taken, entry.hot) if measured is None else taken, measured)
            entry.climbing, entry.seen, reservation.settled = False, Rung.HOT, True
            reservation.measured = measured is not None
            self._accounts.count_restoration(reservation.before)
            overdrawn = entry.held.total > expected
            self._accounts.changed.notify_all()
        if measured is not None:
            self._learn(entry)
        if overdrawn:
            self._restore_budget(entry)

    def release(self, reservation: Reservation) -> None:
        """Return the request's bytes; all bytes of an engine that did not become hot. Idempotent."""
        entry = reservation.entry
        with self._accounts.changed:
            if reservation.released:
                return
            reservation.released = True
            entry.active -= 1
            if reservation.climbs and not reservation.settled:
                entry.climbing = False
            self._accounts.changed.notify_all()
        old = self._accounts.clock() - entry.measured_at >= MEASURE_EVERY
        due = old or (reservation.climbs and not reservation.measured)
        if reservation.settled and due and not entry.inexact and entry.resident.rung is Rung.HOT:
            taken = entry.resident.footprint()
            with self._accounts.changed:
                self._measure(entry, taken)
            self._learn(entry)
            self._accounts.note_overhead(self._probe.read_quick())

    def _measure(self, entry: Entry, taken: Footprint, measured: int | None = None) -> None:
        entry.measure(taken, measured)
        entry.measured_at = self._accounts.clock()

    def _learn(self, entry: Entry) -> None:
        if entry.hot is not None and entry.source == "measured" and entry.full is None:
            self._accounts.peaks.learn(entry.resident.spec, entry.hot)

    def _make_room(
        self,
        entry: Entry,
        decision: Decision,
        busy: set[str],
        spent: set[tuple[str, str]],
        cancel: Cancel | None,
    ) -> bool:
        """Carry out the savings of a decision, or its steps down. False when freed memory did not come back in time."""
        for saving in decision.savings:
            spent.add((saving.id, saving.kind))
            self._mover.shed(saving)
        if decision.savings:
            return True
        moved = False
        for step in decision.steps:
            if self._mover.step_down(self._accounts[step.id], step.to, "memory_needed") is None:
                busy.add(step.id)
            else:
                moved = True
        return self._await_release(entry, cancel) if moved else True

    def _await_release(self, entry: Entry, cancel: Cancel | None) -> bool:
        """The switch gate: returned memory may arrive late, so poll until it is available. False after the timeout.

        True at once when more engines must go first: one may keep more on warm than was known before it went there.
        """
        need = entry.need.host
        wanted = min(INFO[entry.resident.spec.job].switch_bytes or need, need)
        deadline = self._accounts.clock() + self._policy.switch_timeout
        while (readings := self._probe.read_quick()).available < wanted:
            if not self._accounts.admits(need_of(entry), budget(readings, self._policy, settled=False)):
                return True
            if self._accounts.clock() >= deadline:
                text = "%s needs %.2f GB; only %.2f GB are available %g s after others were moved down; going on"
                name = entry.resident.spec.name
                log.warning(text, name, wanted / GB, readings.available / GB, self._policy.switch_timeout)
                return False
            self._accounts.pause(self._policy.switch_interval)
            _check_cancelled(cancel)
        return True

    def _await_idle(self, decision: Decision, deadline: float) -> None:
        """Wait until memory may have come free or a grace time ends; leases end unseen, so look at an interval too."""
        now = self._accounts.clock()
        until = min(deadline, now + self._policy.switch_interval, decision.retry_at or deadline)
        self._accounts.pause(max(0.01, until - now))

    def _cut_unread(self, entry: Entry, readings: Readings, limit: Budget) -> None:
        """Cut answers that nobody reads, where the need fits without their engines."""
        unread = {one.resident.id for one in self._accounts if one is not entry and one.resident.unread}
        if not unread:
            return
        with self._accounts.changed:
            steps = self._accounts.decide(need_of(entry), readings, limit, unread=unread).steps
        for step in steps:
            if step.id in unread:
                text = "%s needs memory: answers of %s that nobody reads are cut"
                log.info(text, entry.resident.spec.name, self._accounts[step.id].resident.spec.name)
                self._accounts[step.id].resident.cut_unread()

    def _check_size(self, entry: Entry) -> None:
        """The 70% rule: a vision model is refused, any other logs a warning."""
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
        others = [one for one in self._accounts if one is not entry]
        pinned = [one.resident.id for one in others if one.resident.pinned and one.held.host]
        return DoesNotFit(refusal.does_not_fit(need, decision, limit, readings, pinned, self._policy))

    def _restore_budget(self, entry: Entry) -> None:
        """The engine took more than expected: idle engines make room after the fact."""
        self._accounts.observe()
        readings = self._probe.read_quick()
        limit = budget(readings, self._policy)
        nothing = Need(entry.resident.id, entry.resident.spec.name, NOTHING)
        with self._accounts.changed:
            decision = self._accounts.decide(nothing, readings, limit)
        for step in decision.steps:
            self._mover.step_down(self._accounts[step.id], step.to, "memory_needed")
        if decision.verdict in (Verdict.WAIT, Verdict.REFUSE):
            text = "%s took %d MB, more than expected; the budget of %d MB (%s) is overdrawn until others are idle"
            log.warning(text, nothing.name, entry.held.total // MB, limit.usable // MB, limit.winner)


def with_expected_weights(taken: Footprint, expected: Footprint | None) -> Footprint:
    """``taken`` with the expected mapped weights: right after the way up, few of them may be resident yet."""
    mapped = max(taken.mapped, expected.mapped if expected else 0)
    return dataclasses.replace(taken, mapped=mapped)


def _check_cancelled(cancel: Cancel | None) -> None:
    """Raises Cancelled for a request that was cancelled while it waited."""
    if cancel is not None and cancel.is_set():
        raise Cancelled("the request was cancelled while it waited for memory")
