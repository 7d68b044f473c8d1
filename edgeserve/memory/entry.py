"""One engine in the books: what it holds, derived from the rung it stands on, so that the books cannot drift."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping, Set
from typing import Literal, Protocol, runtime_checkable

from edgeserve.engine import Footprint, Job, ModelSpec, Rung
from edgeserve.errors import EdgeserveError
from edgeserve.memory.amount import NOTHING, Amount, request, standing
from edgeserve.memory.estimate import heuristic
from edgeserve.memory.peaks import Ledger
from edgeserve.memory.plan import SAVING_ORDER, Saving, Standing


class Resident(Protocol):
    """What the governor knows of an engine; the gate is one. ``last_used`` is on the governor's clock."""

    last_used: float
    pinned: bool

    @property
    def job(self) -> Job: ...
    @property
    def spec(self) -> ModelSpec: ...
    @property
    def rung(self) -> Rung: ...
    @property
    def leases(self) -> int: ...
    def estimate(self) -> Footprint: ...
    def footprint(self) -> Footprint: ...

    def step_down(self, to: Rung) -> Moved | Refused:
        """Down to ``to`` on the calling thread. Refuses at once when there already, leased or at work; never waits."""
        ...


@runtime_checkable
class Thrifty(Protocol):
    """A resident that can do with less before anything is evicted for it. Both methods: any thread, never wait."""

    def savings(self) -> Mapping[str, int]:
        """Bytes that it could save now, by kind: "prefix_cache", "optional_context", "context", "image"."""
        ...

    def shed(self, kind: str, amount: int) -> bool:
        """Save at least ``amount`` bytes, or as much as it offered: drop caches, or go up with a smaller context or
        picture from now on. False when at work."""
        ...

    def restore(self) -> bool:
        """Go up with all that is configured again. False when at work."""
        ...


@dataclasses.dataclass(frozen=True, slots=True)
class Moved:
    """A step down as it was: the rungs, and what the engine took before and after, read while nobody else could move
    it. ``cached``: of what is left, its prefix cache."""

    before: Rung
    after: Rung
    held: Amount
    left: Amount
    cached: Amount = NOTHING


@dataclasses.dataclass(frozen=True, slots=True)
class Refused:
    """No step down, and why."""

    reason: Literal["already there", "leased", "at work"]


def cached(resident: Resident) -> Amount:
    """Its prefix cache, as it tells."""
    return Amount(private=resident.savings().get("prefix_cache", 0)) if isinstance(resident, Thrifty) else NOTHING


def taken(resident: Resident) -> Amount:
    """What it holds now by its own account, its cache included. Asks the engine: not under the lock of the books."""
    return standing(resident.footprint()) + cached(resident)


@dataclasses.dataclass(slots=True)
class Entry:
    """One engine's page. ``hot`` is what it takes when hot, as measured or, until then, expected from ``source``;
    ``full`` the same with all that is configured, while it does with less. Prefix caches come on top, as it tells them.

    ``climbing`` while it is on its way up under a reservation, of which ``active`` are out. ``blurred`` when others
    took or gave memory during its last climb: runtimes measure themselves by what the process grew, so what it tells
    is then not its own alone.
    """

    resident: Resident
    hot: Footprint | None = None
    full: Footprint | None = None
    source: str = "unknown"
    estimated: int = 0
    warm: Amount = NOTHING
    seen: Rung = Rung.COLD
    climbing: bool = False
    blurred: bool = False
    active: int = 0
    uses: int = 0
    parked_at: float = 0.0
    measured_at: float = 0.0
    thrifty: Thrifty | None = None

    def __post_init__(self) -> None:
        self.thrifty = self.resident if isinstance(self.resident, Thrifty) else None

    def expect(self, ledger: Ledger) -> None:
        """Before the first load: learned peak, else the engine's estimate, else by the size of the files."""
        if self.hot is not None:
            return
        spec = self.resident.spec
        looks: tuple[tuple[str, Callable[[], Footprint | None]], ...] = (
            ("ledger", lambda: ledger.find(spec)),
            ("estimate", self._estimate),
            ("heuristic", lambda: heuristic(spec)),
        )
        for source, look in looks:
            found = look()
            if found is not None and found.total + found.device:
                self.hot, self.source, self.estimated = found, source, standing(found).total
                return
        self.hot, self.source = Footprint(), "unknown"

    def reduce(self) -> None:
        """It does with less now: what was learned of it before does not hold until ``restore``."""
        found = self._estimate()
        if found is not None:
            self.full = self.full or self.hot
            self.hot, self.source = found, "estimate"

    def restore(self) -> None:
        """Before the next way up: ask it back to all that is configured."""
        if self.full is not None and self.thrifty is not None and self.thrifty.restore():
            self.hot, self.full = self.full, None

    @property
    def cached(self) -> Amount:
        return cached(self.resident)

    @property
    def optional_context(self) -> int:
        """Bytes of context that it takes only where there is room for them."""
        return self.thrifty.savings().get("optional_context", 0) if self.thrifty else 0

    def _estimate(self) -> Footprint | None:
        try:
            return self.resident.estimate()
        except EdgeserveError:
            return None  # what is wrong with the files is told by open(), which comes next

    def observe(self) -> None:
        """Look at an engine that changed its rung without us: mapped at startup, or closed after a failure."""
        uses, rung = self.uses, self.resident.rung
        if rung is self.seen or self.active:
            return
        now = self.resident.footprint()
        if self.uses != uses or self.resident.rung is not rung:
            return  # it moved meanwhile: whoever moved it tells
        if rung is Rung.WARM:
            self.warm = standing(now)
        elif rung is Rung.HOT and self.hot is None:
            self.measure(now)
        self.seen = rung

    def measure(self, taken: Footprint, measured: int | None = None) -> None:
        """Book what a hot engine really takes; ``measured`` bytes, where known, replace its own sum."""
        if not standing(taken).total and measured is None:
            return  # it cannot tell: what was expected stands
        old = self.hot or Footprint()
        private = taken.private if measured is None else max(0, measured - taken.mapped)
        mapped = taken.mapped if measured is None else min(taken.mapped, measured)
        self.hot = Footprint(mapped, private, max(taken.per_request, old.per_request), taken.device)
        self.source = "measured"

    def leave_behind(self, kept: int) -> None:
        """Of what it took, ``kept`` bytes did not come back when it went: a runtime's one-off cost, paid by the process
        from now on. It is not needed again."""
        if self.hot is not None and kept > 0:
            self.hot = dataclasses.replace(self.hot, private=max(0, self.hot.private - kept))

    @property
    def request(self) -> Amount:
        return request(self.hot) if self.hot else NOTHING

    @property
    def held(self) -> Amount:
        """By rung; a climbing engine counts as hot already, each reservation out adds one request."""
        rung = self.resident.rung
        amount = self.cached
        if self.climbing or rung is Rung.HOT:
            amount = amount + (standing(self.hot) if self.hot else NOTHING)
        elif rung is Rung.WARM:
            amount = amount + self.warm
        for _ in range(self.active):
            amount = amount + self.request
        return amount

    @property
    def need(self) -> Amount:
        """What one more request takes beyond what is held: the way up to hot, and the request."""
        if self.climbing or self.resident.rung is Rung.HOT or self.hot is None:
            return self.request
        now = self.warm if self.resident.rung is Rung.WARM else NOTHING
        return (standing(self.hot) - now) + self.request

    def standing(self, busy: bool, spent: Set[tuple[Job, str]]) -> Standing:
        one = self.resident
        return Standing(
            job=one.job,
            name=one.spec.name,
            rung=Rung.HOT if self.climbing else one.rung,
            held=self.held,
            warm=self.warm + self.cached,
            leases=one.leases,
            last_used=one.last_used,
            pinned=one.pinned,
            busy=busy or self.active > 0,
            weights=str(one.spec.files.get("model", "")),
            savings=tuple(self.savings(spent)),
        )

    def savings(self, spent: Set[tuple[Job, str]]) -> Iterator[Saving]:
        """What a thrifty resident could save, in the order in which it should."""
        if self.thrifty is None:
            return
        offered = self.thrifty.savings()
        for kind in SAVING_ORDER:
            if offered.get(kind, 0) > 0 and (self.resident.job, kind) not in spent:
                yield Saving(self.resident.job, kind, offered[kind])
