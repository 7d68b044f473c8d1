"""The accounts of all engines: the memory that each one holds and needs, and the lock that guards them.

The lock is never held while an engine steps down, while memory is read, or while a request waits for memory.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Set

from edgeserve.engine import Footprint, ModelSpec
from edgeserve.errors import ShuttingDown
from edgeserve.figures.figures import Figures
from edgeserve.memory.amount import Amount
from edgeserve.memory.budget import Budget, margin
from edgeserve.memory.entry import Entry, need_of
from edgeserve.memory.history import History
from edgeserve.memory.occupancy import OPTIONAL, Need, Occupancy, Saving, booked, overhead
from edgeserve.memory.optional_memory import excess
from edgeserve.memory.peaks import Peaks
from edgeserve.memory.plan import Decision, most_private, plan, within
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.memory.resident import Resident
from edgeserve.memory.tickets import Ticket, Tickets
from edgeserve.memory.timeline import Timeline
from edgeserve.memory.traffic import Traffic, own
from edgeserve.memory.way import Claim, Rules, Turn, turn
from edgeserve.system.readings import Readings

log = logging.getLogger("edgeserve.memory")

Wait = Callable[[threading.Condition, float], object]
"""Waits on a held condition, at most so many seconds."""


class Accounts:
    """One entry for each engine.

    ``undelivered``: bytes of answers that their readers have not taken yet, which belong to no engine; any thread.
    ``helpers``: bytes of short-lived processes, such as decoders of pictures, in the latest reading; any thread.
    ``clock`` in seconds, the clock of ``Resident.last_used``. ``wall`` in seconds since the epoch.
    """

    def __init__(
        self,
        policy: MemoryPolicy,
        peaks: Peaks | None = None,
        *,
        undelivered: Callable[[], int] = lambda: 0,
        helpers: Callable[[], int] = lambda: 0,
        clock: Callable[[], float] = time.monotonic,
        wait: Wait = threading.Condition.wait,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.policy = policy
        self.peaks = peaks or Peaks()
        self.history = History()
        self.figures = Figures()
        self.timeline = Timeline(clock, wall)
        self.undelivered, self.helpers = undelivered, helpers
        self.stored: Callable[[], int] = lambda: 0  # bytes of stored responses; any thread
        self.traffic = Traffic()
        self.clock, self.wall = clock, wall
        self.changed = threading.Condition()
        """Held to read or write the accounts; ``stir`` notifies whenever memory may have come free."""
        self.tickets = Tickets()
        self.stirred = 0
        """Calls of ``stir``."""
        self.progress = 0  # answers that began or ended, and engines that moved
        self.closing = False
        self._wait = wait
        self._base, self.least_base = 0, sys.maxsize
        self._moving = self.changes = 0  # steps down under way, and all steps that began, or ended downwards
        self._entries: dict[str, Entry] = {}

    def room(self, model: str, readings: Readings, limit: Budget) -> int:
        """Bytes of the budget that are left to a model by the process, and by models that are pinned or at work.

        All of them may be private: a plan that takes the room is not refused.
        """
        with self.changed:
            stay = [one.held for one in self.occupancies(readings) if one.id != model and (one.pinned or one.leases)]
            beyond = sum(one.beyond(readings.process.workers) for one in self if one.resident.id == model)
            unbooked = self.unbooked(readings) + beyond
        whole = limit.usable - sum(one.host for one in stay)
        private = most_private(limit, self.policy) - sum(one.private for one in stay)
        return max(0, min(whole, private) - unbooked)

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._entries.values()))

    def __getitem__(self, model: str) -> Entry:
        """The account of an engine that is served. Raises KeyError."""
        return self._entries[model]

    def find(self, model: str) -> Entry | None:
        """The account of an engine that a decision names; None when it is served no more."""
        return self._entries.get(model)

    def of(self, resident: Resident) -> Entry | None:
        """The account of this very engine; None when it is served no more, or another has taken its place."""
        entry = self._entries.get(resident.id)
        return entry if entry is not None and entry.resident is resident else None

    def outgrown(self, spec: ModelSpec) -> Footprint | None:
        """Expect and learn more memory of an engine; returns how much. None when it is served no more."""
        if (entry := self.find(spec.id)) is None:
            return None
        entry.expect(self.peaks)
        estimate = entry.estimate_now() or Footprint()  # reads the disk, for which nobody else must wait
        with self.changed:
            peak = entry.raise_peak(estimate)
        self.peaks.learn(spec, peak, firm=True)
        return peak

    def adopt(self, resident: Resident) -> None:
        with self.changed:
            self._entries[resident.id] = Entry(resident, parked_at=self.wall())

    def forget(self, resident: Resident) -> None:
        """Close the account of an engine that is served no more, unless another of the same id has taken its place."""
        with self.changed:
            if self.of(resident) is not None:
                del self._entries[resident.id]
            self.stir()

    def observe(self) -> None:
        """Note engines that changed their rung without the governor. Asks engines, so the lock must not be held."""
        for entry in self:
            try:
                if (move := entry.observe()) is not None:
                    self.figures.moved(entry.resident.spec, move)
            except Exception:  # one broken engine must not keep memory from all others
                log.exception("the memory of %s could not be observed", entry.resident.spec.name)

    def note_overhead(self, readings: Readings) -> None:
        """Remember the bytes that the process takes beside its engines.

        They show while no request runs, or while each runs in a process of its own, which is read by itself.
        """
        sizes = readings.process.workers
        with self.changed:
            if all(one.resident.pid in sizes for one in self if one.active):
                held = sum(sizes.get(one.resident.pid or 0, one.held.private) for one in self)
                passing = self.passing - self.helpers() + readings.process.helpers
                self._base = max(0, readings.unreclaimable - held - passing)
            if self.no_reservations():
                self.least_base = min(self.least_base, self._base)

    def occupancies(
        self, now: Readings | None = None, busy: Set[str] = frozenset(), spent: Set[tuple[str, str]] = frozenset()
    ) -> list[Occupancy]:
        """All engines as ``plan`` needs them, each with no less than its own process has in the readings of ``now``.

        ``busy`` engines could not be moved; ``spent`` savings are used up. The caller holds the lock.
        """
        waiting, sizes = self.tickets.ids(), now.process.workers if now else {}
        return [one.occupancy(name in busy, spent, name in waiting, sizes) for name, one in self._entries.items()]

    def unbooked(self, readings: Readings) -> int:
        """Private bytes beside all engines, those that pass included. The caller holds the lock."""
        return max(self.base(), overhead(self.occupancies(readings), readings))

    def base(self) -> int:
        """Bytes that the process takes beside its engines."""
        return self._base + self.passing

    @property
    def passing(self) -> int:
        """Bytes of requests and answers, and of the processes that decode them: all come and go."""
        return self.undelivered() + self.traffic.held + self.helpers()

    def passing_of_others(self, readings: Readings) -> int:
        """Bytes of other requests and answers, with the decoders that have ended since this reading."""
        return max(0, self.passing + max(0, readings.process.helpers - self.helpers()) - own.get().held)

    def beside(self, readings: Readings, limit: Budget) -> tuple[int, int]:
        """Private bytes beside all engines, alike for all requests, and those that pass. The ``margin`` is left out.

        While others' requests run, all bytes beyond the least base may be theirs. The caller holds the lock.
        """
        counted, unbooked = self.passing_of_others(readings), self.unbooked(readings)
        mine = own.get().held
        passing = max(counted, unbooked - self.least_base - mine) if counted or not self.no_reservations() else 0
        left_out = min(counted + mine, unbooked, margin(readings, limit))
        return unbooked - left_out, max(0, passing - left_out)

    def booked(self) -> Amount:
        """Memory that all engines hold: the sum over their rungs and over the running requests."""
        return booked(self.occupancies(), {})

    def device_held(self) -> int:
        """Bytes on accelerators with memory of their own."""
        return sum(entry.held.device for entry in self)

    def decide(self, need: Need, readings: Readings, limit: Budget) -> Decision:
        """``plan`` on the present accounts. The caller holds the lock when it books the decision."""
        return plan(need, self.occupancies(readings), readings, limit, self.clock(), self.policy, base=self.base())

    def turn(
        self,
        entry: Entry,
        readings: Readings,
        limit: Budget,
        ticket: Ticket | None = None,
        busy: Set[str] = frozenset(),
        spent: Set[tuple[str, str]] = frozenset(),
    ) -> Turn:
        """The decision on one more request of an engine, in the place of its ticket; behind all tickets without one.

        The caller holds the lock.
        """
        residents = self.occupancies(readings, busy, spent | self.tickets.spent())
        unbooked, passing = self.beside(readings, limit)
        rules = Rules(limit, self.policy, unbooked, self.clock(), passing)
        others = [one for one in self.tickets if one.id in self._entries and one.id != entry.resident.id]
        line = [Claim(need_of(self._entries[one.id]), one.way, one.drains) for one in others]
        ahead = len([one for one in others if ticket is None or one.place < ticket.place])
        claim = Claim(need_of(entry), ticket.way, ticket.drains) if ticket else Claim(need_of(entry))
        return turn(claim, line[:ahead], residents, rules, line[ahead:])

    def life(self) -> tuple[int, ...]:
        """Figures that change whenever an engine moves, or an answer begins, takes a step or ends."""
        return self.progress, *(entry.resident.rounds for entry in self if entry.active)

    def stir(self, *, progress: bool = False) -> None:
        """Wake the requests that wait for memory. The caller holds the lock."""
        self.stirred += 1
        self.progress += progress
        self.changed.notify_all()

    def excess(self, entry: Entry, saving: Saving, readings: Readings, limit: Budget) -> int:
        """Bytes of the engine's optional memory of one kind that have no room, before later kinds take any."""
        later = sum(one.private for one in entry.optional() if OPTIONAL.index(one.kind) > OPTIONAL.index(saving.kind))
        with self.changed:
            need = need_of(entry)
            need = dataclasses.replace(need, amount=need.amount - Amount(private=later))
            residents = self.occupancies(readings)
            lasting = {"base": self._base, "passing": self.passing}
            return excess(saving.private, need, residents, readings, limit, self.policy, kind=saving.kind, **lasting)

    def admits(self, need: Need, limit: Budget) -> bool:
        """True when the need fits by the accounts alone, as if all returned memory had arrived."""
        with self.changed:
            return within(booked(self.occupancies(), {}, need), self.base(), need, limit, self.policy)

    def no_reservations(self) -> bool:
        """True while no request holds a reservation: then only a step down changes the memory of engines."""
        return not any(entry.active for entry in self)

    def begin_change(self, entry: Entry | None = None) -> int | None:
        """An engine begins to take or return memory. The caller holds the lock.

        Returns a mark for ``unchanged_since``; None while engines other than ``entry`` take or return memory too.
        """
        self.changes += 1
        alone = not self._moving and not any(one.active for one in self if one is not entry)
        return self.changes if alone else None

    def unchanged_since(self, mark: int | None) -> bool:
        """True when no other engine has begun a change since: then the process grew or shrank by one engine alone."""
        return mark == self.changes

    def steady_since(self, changes: int) -> bool:
        """True when a reading since that value of ``changes`` shows the engines on their present rungs."""
        return not self._moving and changes == self.changes

    @contextlib.contextmanager
    def moving(self) -> Iterator[int | None]:
        """Lasts while an engine steps down, or opens. Yields the mark of ``begin_change``."""
        with self.changed:
            mark = self.begin_change()
            self._moving += 1
        try:
            yield mark
        finally:
            with self.changed:
                self._moving, self.changes = self._moving - 1, self.changes + 1

    def pause(self, seconds: float, seen: int | None = None) -> None:
        """Wait until memory may have come free, at most ``seconds``. Raises ShuttingDown when the server ends.

        ``seen``: the value of ``stirred`` when the caller last looked; a later one ends the wait at once.
        """
        with self.changed:
            if not self.closing and seen in (None, self.stirred):
                self._wait(self.changed, seconds)
            if self.closing:
                raise ShuttingDown("the server is shutting down and loads nothing more", retry_after=5)

    def close(self) -> None:
        """End all pauses, now and later."""
        with self.changed:
            self.closing = True
            self.stir()
