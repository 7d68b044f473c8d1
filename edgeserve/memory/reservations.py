"""Reservations: bytes booked before the way up, settled on the measured memory, and released with the request."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from types import TracebackType

from edgeserve.dataclass import dataclass
from edgeserve.engine import Footprint, Rung
from edgeserve.figures.moves import LOAD, Move
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.entry import Entry
from edgeserve.memory.history import in_mb
from edgeserve.system.probe import Probe
from edgeserve.units import MB

MEASURE_EVERY = 30.0
"""Seconds between two measurements of a hot engine, whose arenas may still grow."""
LEAST_NOISE, NOISE_SHARE = MB, 1 / 16
"""Bytes of requests beside a way up that leave its measurement exact: so many, or this share of the expected memory."""


@dataclass(slots=True, eq=False)
class Reservation:
    """Bytes set aside for one request and, when the engine ``climbs``, for its way up to hot.

    ``mark``: as ``Accounts.begin_change`` returned it. ``booked_at``: on the accounts' clock. ``gone``: as in
    ``Traffic``, then. The context of a reservation ends with ``give_back``."""

    entry: Entry
    before: Rung
    climbs: bool
    mark: int | None
    booked_at: float
    gone: int
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


class Reservations:
    """Calls on the worker thread of the engine that has the memory."""

    def __init__(self, accounts: Accounts, probe: Probe) -> None:
        self._accounts = accounts
        self._probe = probe

    def book(self, entry: Entry) -> Reservation:
        """Open a reservation. The caller holds the lock of the accounts."""
        before, mark = entry.resident.rung, self._accounts.begin_change(entry)
        entry.active += 1
        entry.uses += 1
        entry.climbing = before is not Rung.HOT
        self._accounts.progress += 1
        gone = self._accounts.traffic.gone
        return Reservation(entry, before, entry.climbing, mark, self._accounts.clock(), gone, self.release)

    def settle(self, reservation: Reservation, measured: int | None) -> bool:
        """The engine is hot: book and learn its memory. True when it took more than expected."""
        entry = reservation.entry
        if reservation.settled or not reservation.climbs:
            reservation.settled = True
            return False
        taken = entry.resident.footprint()
        with self._accounts.changed:
            expected = entry.held.total
            noisy = self._is_noisy(entry, reservation.gone)
            entry.noisy = noisy if reservation.before is Rung.COLD else entry.noisy
            alone = not (noisy or entry.noisy) and self._accounts.unchanged_since(reservation.mark)
            entry.inexact = measured is None and not (alone and taken.exact)
            if not entry.inexact or entry.source == "unknown":
                self._measure(entry, with_expected_weights(taken, entry.hot) if measured is None else taken, measured)
            if not entry.inexact:
                entry.prove()
            entry.climbing, entry.seen, reservation.settled = False, Rung.HOT, True
            now = self._accounts.clock()
            entry.begin_hot(now, now - reservation.booked_at, self._accounts.policy.min_hot_seconds)
            reservation.measured = measured is not None
            self._accounts.history.counts["restored"] += reservation.before is Rung.WARM
            overdrawn = entry.held.total > expected
            self._accounts.stir(progress=True)
            held = entry.held.total
        self._tell(reservation, now, expected, held)
        if measured is not None:
            self._learn(entry)
        return overdrawn

    @contextlib.contextmanager
    def opening(self, entry: Entry | None) -> Iterator[None]:
        """Brackets a way up from cold to warm that no reservation covers. None: an engine that is served no more.

        No account explains its memory meanwhile, so no request is refused for that.
        """
        gone = self._accounts.traffic.gone
        with self._accounts.moving():
            yield
        if entry is not None:
            entry.noisy = self._is_noisy(entry, gone)

    def _is_noisy(self, entry: Entry, gone: int) -> bool:
        """Whether the engine measured requests as its own. In the serving process it measures how that has grown.

        Else a client could make it learn the bodies of its uploads, and others be refused for them ever after. ``gone``
        as in ``Traffic`` when the way up began.
        """
        noise = max(LEAST_NOISE, int(NOISE_SHARE * entry.held.private))
        return self._accounts.traffic.since(gone) > noise and entry.resident.in_process

    def _tell(self, reservation: Reservation, now: float, expected: int, held: int) -> None:
        """Count the way up, and note it in the timeline. Sizes in bytes."""
        entry, before = reservation.entry, reservation.before
        self._accounts.figures.moved(entry.resident.spec, Move(before, Rung.HOT, LOAD, reservation.booked_at, now))
        self._accounts.timeline.note(
            "step_up",
            entry.resident.id,
            before=before.name.lower(),
            after=Rung.HOT.name.lower(),
            seconds=round(now - reservation.booked_at, 2),
            expected_mb=in_mb(expected),
            taken_mb=in_mb(held),
        )

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
            self._accounts.stir(progress=True)
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


def with_expected_weights(taken: Footprint, expected: Footprint | None) -> Footprint:
    """``taken`` with the expected mapped weights: right after the way up, few of them may be resident yet."""
    mapped = max(taken.mapped, expected.mapped if expected else 0)
    return dataclasses.replace(taken, mapped=mapped)
