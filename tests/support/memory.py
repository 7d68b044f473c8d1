"""A simulated machine: engines that only report sizes, and a probe that adds the sizes up."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from support.gates import Clock, fake_spec

from edgeserve.engine import Footprint, Rung
from edgeserve.jobs import Job
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.governor import Governor, Reservation
from edgeserve.memory.peaks import Peaks
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.memory.resident import Moved, Refused, cached, taken
from edgeserve.system.readings import Accelerator, NullAccelerator, ProcessMemory, Readings
from edgeserve.units import GB, MB

POLICY = MemoryPolicy(os_reserve_gb=0.0, available_margin_gb=0.0, max_percent=1.0, context_percent=1.0)
"""A policy whose budget is the whole machine."""


def readings(total: int = 16 * GB, available: int | None = None, anon: int = 0, **more: Any) -> Readings:
    process = ProcessMemory(anon=anon, total=anon)
    available = total - anon if available is None else available
    return Readings(at=0.0, machine_total=total, machine_available=available, process=process, **more)


class FakeResident:
    """An engine of given sizes in MB on each rung. ``takes`` differs from the estimate when the estimate is wrong."""

    def __init__(
        self,
        job: Job,
        mapped: int = 0,
        private: int = 0,
        request: int = 0,
        *,
        warm: int = 0,
        rung: Rung = Rung.COLD,
        pinned: bool = False,
        last_used: float = 0.0,
        takes: int | None = None,
    ) -> None:
        self.spec = fake_spec(job, mapped=mapped, private=private)
        self.rung = rung
        self.leases = 0
        self.last_used = last_used
        self.pinned = pinned
        self.says = Footprint(mapped * MB, private * MB, request * MB)
        self.warm = Footprint(private=warm * MB)
        self.takes = self.says if takes is None else Footprint(mapped * MB, takes * MB, request * MB)
        self.in_process = True
        self.pid: int | None = None
        self.left = 0
        """MB that requests have left in the memory of its process, beyond its figures; they go with a step down."""
        self.opened = 0
        self.before_step: Callable[[], None] = lambda: None
        self.after_step: Callable[[], None] = lambda: None
        self.refuses = False
        self.rounds = 0
        self.unread = False
        self.cut = 0  # calls of ``cut_unread``
        self.woken = 0

    @property
    def id(self) -> str:
        return self.spec.id

    def estimate(self) -> Footprint:
        return self.says

    def footprint(self) -> Footprint:
        if self.rung is Rung.HOT:
            return dataclasses.replace(self.takes, per_request=0)
        return self.warm if self.rung is Rung.WARM else Footprint()

    def step_down(self, to: Rung, *, leased: bool = False) -> Moved | Refused:
        self.before_step()
        kept = self.leases > 0 and not leased
        if kept or self.refuses or self.rung <= to:
            return Refused("leased" if kept else "at work" if self.refuses else "already there")
        before, held = self.rung, taken(self)
        self.go(to)
        move = Moved(before, to, held, taken(self), cached(self))
        self.after_step()
        return move

    def go(self, to: Rung) -> None:
        self.rung, self.left = to, 0

    def wake(self) -> None:
        self.woken += 1

    def cut_all_unread(self) -> None:
        self.unread, self.leases = False, 0

    def cut_unread(self) -> None:
        self.cut += 1

    def savings(self) -> dict[str, int]:
        return {}

    def shed(self, kind: str, amount: int) -> bool:
        return False

    def keep(self, most: int) -> None: ...

    def restore(self) -> bool:
        return False

    def climb(self) -> None:
        """The gate's part between reserve and settle."""
        assert self.rung is not Rung.HOT, f"{self.id} opened twice"
        self.opened += 1
        self.rung = Rung.HOT


class ThriftyResident(FakeResident):
    """Holds a prefix cache of ``cached`` MB on top, and can go up with ``context`` MB less.

    ``optional`` MB more are context that it takes only where there is room, ``reordered`` MB a copy of weights, and
    ``draft`` MB a draft model."""

    def __init__(
        self,
        *args: Any,
        cached: int = 0,
        context: int = 0,
        optional: int = 0,
        reordered: int = 0,
        draft: int = 0,
        **more: Any,
    ) -> None:
        super().__init__(*args, **more)
        self.reordered = self._all_reordered = reordered * MB
        self.draft = self._all_drafts = draft * MB
        self.cached = cached * MB
        self.saves = 0
        """Bytes that parking adds to the cache, for the state of the last conversation."""
        self.context = context * MB
        self.optional = self._all_optional = optional * MB
        self.shed_kinds: list[str] = []
        self.most = 1 << 60
        """Bytes that the prefix cache may take."""
        self._full = self.takes

    def savings(self) -> dict[str, int]:
        found = {"context": self.context, "optional_context": self.optional, "reordered": self.reordered}
        found["draft"] = self.draft
        return {
            "prefix_cache": self.cached,
            "copy": self.reordered if self.rung is Rung.HOT else 0,
            **{kind: 0 if self.rung is Rung.HOT else size for kind, size in found.items()},
        }

    def shed(self, kind: str, amount: int) -> bool:
        self.shed_kinds.append(kind)
        if kind == "prefix_cache":
            self.cached -= amount
        else:
            self.context -= amount if kind == "context" else 0
            self.optional -= amount if kind == "optional_context" else 0
            self.reordered -= amount if kind == "reordered" else 0
            self.draft -= amount if kind == "draft" else 0
            self.takes = self.says = dataclasses.replace(self.takes, private=self.takes.private - amount)
        return True

    def keep(self, most: int) -> None:
        self.most = most
        self.cached = min(self.cached, most)

    def restore(self) -> bool:
        optional = self._all_optional - self.optional + self._all_reordered - self.reordered
        optional += self._all_drafts - self.draft
        self.context += self._full.private - self.takes.private - optional
        self.optional, self.reordered = self._all_optional, self._all_reordered
        self.draft = self._all_drafts
        self.takes = self.says = self._full
        return True

    def go(self, to: Rung) -> None:
        """Down; an engine that stays open keeps its cache."""
        super().go(to)
        self.cached = 0 if to is Rung.COLD else self.cached + self.saves


class FakeProbe:
    """Reads a machine of ``total`` bytes on which the residents, ``base`` and ``others`` take memory.

    ``late`` returned bytes are not available yet; each reading brings ``returning`` of them."""

    def __init__(self, total: int, base: int = 0) -> None:
        self.total = total
        self.base = base
        self.others = 0
        self.helpers: Callable[[], int] = lambda: 0
        self.late = 0
        self.returning = 0
        self.residents: list[FakeResident] = []
        self.accelerator: Any = NullAccelerator()
        self.more: dict[str, Any] = {}
        self.reads = 0

    def read(self) -> Readings:
        self.reads += 1
        taken = [one.footprint() for one in self.residents]
        cached = sum(one.savings().get("prefix_cache", 0) for one in self.residents)
        left = [getattr(one, "left", 0) * MB for one in self.residents]  # a gate has none
        anon = self.base + cached + sum(one.private for one in taken) + sum(left)
        file = sum(one.mapped for one in taken)
        each = zip(self.residents, taken, left, strict=True)
        sizes = {one.pid: held.private + more for one, held, more in each if one.pid and one.rung}
        process = ProcessMemory(anon=anon, file=file, total=anon + file, helpers=self.helpers(), workers=sizes)
        available = max(0, self.total - anon - self.others - self.late)
        self.late = max(0, self.late - self.returning)
        device: Accelerator = self.accelerator.read()
        return Readings(0.0, self.total, available, process, accelerator=device, **self.more)

    read_quick = latest = known = read

    def machine(self) -> int:
        return self.total

    def start(self, then: Callable[[], object]) -> None:
        self.then = then

    def stop(self) -> None: ...


class World:
    """A governor on a simulated machine of ``total`` MB. A wait moves the clock and calls ``on_wait``."""

    def __init__(
        self, total: int, *residents: FakeResident, policy: MemoryPolicy = POLICY, kind: type[Governor] = Governor
    ) -> None:
        self.clock = Clock(1000.0)
        self.probe: Any = FakeProbe(total * MB)
        self.waits: list[float] = []
        self.on_wait: Callable[[], None] = lambda: None
        self.peaks = Peaks()
        self.trims = 0
        self.on_trim: Callable[[], None] = lambda: None
        self.free_heap = 0
        """Bytes of ``probe.base`` that are free pages of the heap."""
        self.code_drops = 0
        self.undelivered = self.helpers = 0
        self.probe.helpers = lambda: self.helpers
        accounts = Accounts(
            policy,
            self.peaks,
            undelivered=lambda: self.undelivered,
            helpers=lambda: self.helpers,
            clock=self.clock,
            wait=self._wait,
            wall=lambda: 1_704_067_200.0 + self.clock.now,
        )
        self.end_helper: Callable[[], bool] = lambda: False
        self.governor = kind(
            accounts, self.probe, trim=self._trim, drop_code=self._drop_code, end_helper=lambda: self.end_helper()
        )
        self.residents = {one.id: one for one in residents}
        for one in residents:
            self.probe.residents.append(one)
            self.governor.adopt(one)

    def _wait(self, condition: Any, seconds: float) -> None:
        self.waits.append(seconds)
        self.clock.now += seconds
        self.on_wait()

    def _trim(self) -> None:
        self.trims += 1
        assert self.trims < 100, "free pages are returned again and again"
        self.on_trim()
        self.probe.base, self.free_heap = self.probe.base - self.free_heap, 0

    def _drop_code(self) -> int:
        self.code_drops += 1
        return 0

    def heat(self, model: str) -> FakeResident:
        """One whole request: afterwards the engine is hot and was used just now."""
        one = self.residents[model]
        reservation = self.governor.reserve(one)
        try:
            if one.rung is not Rung.HOT:
                one.climb()
            self.governor.settle(reservation)
        finally:
            self.governor.release(reservation)
            one.last_used = self.clock.now
        return one

    def begin(self, model: str) -> Reservation:
        """A request whose answer is under way until ``end``."""
        one = self.residents[model]
        reservation = self.governor.reserve(one)
        if one.rung is not Rung.HOT:
            one.climb()
        self.governor.settle(reservation)
        one.leases += 1
        return reservation

    def end(self, reservation: Reservation) -> None:
        one = self.residents[reservation.entry.resident.id]
        self.governor.release(reservation)
        one.leases -= 1
        one.last_used = self.clock.now

    def later(self, seconds: float) -> None:
        self.clock.now += seconds

    def booked(self) -> int:
        with self.governor.accounts.changed:
            return self.governor.accounts.booked().host


def world_at(percent: int, *residents: FakeResident) -> World:
    """A process that uses ``percent`` of its budget of 1000 MB."""
    world = World(1000, *residents)
    for one in residents:
        world.heat(one.id)
    world.probe.base = percent * 10 * MB - sum(one.footprint().private for one in residents)
    return world
