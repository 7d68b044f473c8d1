"""The books of all engines, and the lock that guards them.

The lock is never held while an engine moves, while memory is read or while it is waited for.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator, Set

from edgeserve.engine import Job, Rung
from edgeserve.errors import ShuttingDown
from edgeserve.jobs import INFO
from edgeserve.memory.amount import Amount
from edgeserve.memory.budget import Budget
from edgeserve.memory.entry import Entry, Resident
from edgeserve.memory.history import History
from edgeserve.memory.optional_context import excess
from edgeserve.memory.peaks import Ledger
from edgeserve.memory.plan import Decision, Need, Standing, booked, overhead, plan, within
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.system.readings import Readings

Pause = Callable[[threading.Condition, float], object]
"""Waits on a held condition, at most so many seconds."""


class Books:
    """``clock`` in seconds, the one that ``Resident.last_used`` is on; ``wall`` in seconds since the epoch."""

    def __init__(
        self,
        policy: MemoryPolicy,
        ledger: Ledger,
        *,
        clock: Callable[[], float] = time.monotonic,
        wait: Pause = threading.Condition.wait,
        wall: Callable[[], float] = time.time,
    ) -> None:
        self.policy = policy
        self.ledger = ledger
        self.history = History()
        self.clock = clock
        self.wall = wall
        self.changed = threading.Condition()
        """Held to read or write; notified whenever memory may have come free."""
        self.closing = False
        self.undelivered: Callable[[], int] = lambda: 0
        """Bytes of answers on their way to their readers, which belong to no engine. Any thread."""
        self._base = 0
        self._moving = 0
        self._stirs = 0
        self._wait = wait
        self._entries: dict[Job, Entry] = {}

    def __iter__(self) -> Iterator[Entry]:
        return iter(tuple(self._entries.values()))

    def __getitem__(self, job: Job) -> Entry:
        return self._entries[job]

    def adopt(self, resident: Resident) -> None:
        with self.changed:
            self._entries[resident.job] = Entry(resident, parked_at=self.wall())

    def observe(self) -> None:
        """Look at the engines that changed their rung without us. Not under the lock: engines are asked."""
        for entry in self:
            entry.observe()

    def note_overhead(self, readings: Readings) -> None:
        """When no request runs, what the process takes beside its engines shows: remember it."""
        with self.changed:
            if self.at_rest():
                self._base = max(0, overhead(self.standings(), readings) - self.undelivered())

    def standings(self, busy: Set[Job] = frozenset(), spent: Set[tuple[Job, str]] = frozenset()) -> list[Standing]:
        """All engines as ``plan`` sees them. ``busy`` could not be moved just now, ``spent`` savings are used up."""
        return [entry.standing(entry.resident.job in busy, spent) for entry in self._entries.values()]

    def base(self) -> int:
        """Bytes that the process takes beside its engines."""
        return self._base + self.undelivered()

    def booked(self) -> Amount:
        """What all hold: the sum of the rungs and of the requests under way."""
        return booked(self.standings(), {})

    def device_held(self) -> int:
        """Bytes on accelerators with memory of their own."""
        return sum(entry.held.device for entry in self)

    def device_mapped(self) -> int:
        """Bytes of mapped weights that an accelerator may use where they are: llama.cpp's, each file once."""
        found: dict[str, int] = {}
        for entry in self:
            spec = entry.resident.spec
            if INFO[spec.job].mapped and spec.device != "cpu":
                weights = str(spec.files.get("model", spec.job))
                found[weights] = max(found.get(weights, 0), entry.held.mapped)
        return sum(found.values())

    def decide(
        self,
        need: Need,
        readings: Readings,
        limit: Budget,
        busy: Set[Job] = frozenset(),
        spent: Set[tuple[Job, str]] = frozenset(),
    ) -> Decision:
        """``plan`` on the books as they are; under the lock when the answer is to be booked."""
        standings = self.standings(busy, spent)
        return plan(need, standings, readings, limit, self.clock(), self.policy, base=self.base())

    def excess(self, entry: Entry, readings: Readings, limit: Budget) -> int:
        """Bytes of the context that it would like to have on top, and that there is no room for."""
        spare = entry.optional_context
        if not spare:
            return 0
        need = Need(entry.resident.job, entry.resident.spec.name, entry.need)
        with self.changed:
            return excess(spare, need, self.standings(), readings, limit, self.policy, base=self.base())

    def admits(self, need: Need, limit: Budget) -> bool:
        """By the books alone, as if all memory that was given back had arrived."""
        with self.changed:
            return within(booked(self.standings(), {}, need), self.base(), need, limit, self.policy)

    def at_rest(self) -> bool:
        """No reservation is out: whatever memory moves now is moved by a step down."""
        return not any(entry.active for entry in self)

    def stir(self, entry: Entry | None = None) -> int | None:
        """Somebody begins to take or give memory: a mark to measure it by, None while others than ``entry`` do too.

        Under the lock."""
        self._stirs += 1
        alone = not self._moving and not any(one.active for one in self if one is not entry)
        return self._stirs if alone else None

    def undisturbed(self, mark: int | None) -> bool:
        """Has nobody else begun since that mark? Then what the process grew or shrank by is one engine's alone."""
        return mark == self._stirs

    @contextlib.contextmanager
    def moving(self) -> Iterator[int | None]:
        """While an engine steps down; yields its mark."""
        with self.changed:
            mark = self.stir()
            self._moving += 1
        try:
            yield mark
        finally:
            with self.changed:
                self._moving -= 1

    def restored(self, before: Rung) -> None:
        self.history.counts["restored"] += before is Rung.WARM

    def pause(self, seconds: float) -> None:
        """Until something comes free, at most so long. Raises ShuttingDown when the server ends meanwhile."""
        with self.changed:
            if not self.closing:
                self._wait(self.changed, seconds)
            if self.closing:
                raise ShuttingDown("the server is shutting down and loads nothing more", retry_after=5)

    def close(self) -> None:
        """End all pauses, now and later."""
        with self.changed:
            self.closing = True
            self.changed.notify_all()
