"""One engine's account: the memory that it holds, derived from its rung, so that the account cannot drift."""

from __future__ import annotations

import dataclasses
import logging
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Set
from types import MappingProxyType

from edgeserve.dataclass import dataclass
from edgeserve.engine import Footprint, Rung
from edgeserve.errors import EdgeserveError
from edgeserve.figures.moves import CLOSED, MAPPED, Move
from edgeserve.jobs import INFO
from edgeserve.memory.amount import NOTHING, Amount, per_request, without_requests
from edgeserve.memory.estimate import heuristic
from edgeserve.memory.occupancy import OPTIONAL, SAVING_ORDER, Need, Occupancy, Saving
from edgeserve.memory.peaks import Peaks
from edgeserve.memory.resident import Resident, cached
from edgeserve.units import MB

log = logging.getLogger("edgeserve.memory")

SWITCHING_SHARE = 0.25
"""Largest share of the time that the steps of two engines take which have work all the time and take turns."""
LONGEST_HOT = 60.0
"""Seconds for which a costly switch keeps an engine hot at most: the first way up of a model may take a minute."""
ALIKE_SHARE = 0.2
"""Largest difference of two figures of a step down, as a share, at which the earlier step predicts the later one."""
LEAST_RAISE = 16 * MB
"""Bytes by which the expected memory of an engine grows at least when the system has killed its process."""

NO_WORKERS: Mapping[int, int] = MappingProxyType({})


@dataclass(slots=True)
class Entry:
    """The account of one engine.

    - ``hot``: memory of the hot engine: measured, or until then expected. ``source`` names the origin of the figure.
      A prefix cache comes on top.
    - ``full``: ``hot`` with everything that is configured, while the engine does with less.
    - ``whole``: its way up takes no smaller context: a prompt needs all of it. ``shrunk``: bytes by which its context
      is smaller than configured.
    - ``warm``: memory of the warm engine. ``seen``: the last rung that the accounts know of.
    - ``active``: open reservations. ``climbing``: the engine is on its way up under one of them.
    - ``inexact``: other engines took or returned memory during the last way up, or requests were prepared. Runtimes
      measure themselves by the growth of the process, so the figure then includes others' memory.
    - ``doubted``: the figure was in doubt, and the next exact one holds. ``proven``: the one that did, or that came
      after a kill by the system.
    - ``noisy``: large requests came beside the last way up from cold. A runtime that measures itself as it opens keeps
      that figure until it is cold.
    - ``hot_at``: when the engine last became hot. ``hot_until``: until then it stays hot while it has work.
    - ``leaving_seconds``: time that its last step down took.
    - ``returned``: bytes of the last exact step down between two rungs: by the engine's figures, and measured.
    """

    resident: Resident
    hot: Footprint | None = None
    full: Footprint | None = None
    source: str = "unknown"
    estimated: int = 0
    warm: Amount = NOTHING
    seen: Rung = Rung.COLD
    climbing: bool = False
    inexact: bool = False
    noisy: bool = False
    doubted: bool = False
    proven: Footprint | None = None
    whole: bool = False
    shrunk: int = 0
    active: int = 0
    uses: int = 0
    parked_at: float = 0.0
    measured_at: float = 0.0
    hot_at: float = -math.inf
    hot_until: float = -math.inf
    leaving_seconds: float = 0.0
    returned: dict[tuple[Rung, Rung], tuple[int, int]] = dataclasses.field(default_factory=dict)

    def begin_hot(self, now: float, climbing: float, least: float) -> None:
        """The engine is hot after ``climbing`` seconds of way up. It stays for ``least`` seconds while it has work.

        A costly switch lengthens that time up to LONGEST_HOT: between two engines with work, switching takes at most
        SWITCHING_SHARE.
        """
        cost = (climbing + self.leaving_seconds) * (1 / SWITCHING_SHARE - 1)
        self.hot_at, self.hot_until = now, now + max(least, min(cost, LONGEST_HOT))

    def expect(self, peaks: Peaks) -> None:
        """Before the first load: take the learned peak, else the engine's estimate, else a guess by file size."""
        if self.hot is None:
            found, source = self._look(peaks)
            self._take(found, source)
            if source == "learned" and (firm := peaks.firm(self.resident.spec)):
                self.proven = dataclasses.replace(found, private=firm)

    def _look(self, peaks: Peaks) -> tuple[Footprint, str]:
        spec = self.resident.spec
        sources: tuple[tuple[str, Callable[[], Footprint | None]], ...] = (
            ("learned", lambda: peaks.find(spec)),
            ("estimate", self.estimate_now),
            ("heuristic", lambda: heuristic(spec)),
        )
        for source, look in sources:
            found = look()
            if found is not None and found.total + found.device:
                return found, source
        return Footprint(), "unknown"

    def _take(self, found: Footprint, source: str) -> None:
        if self.hot is None:  # else another thread has measured it, since looking takes a while
            self.hot, self.source, self.estimated = found, source, without_requests(found).total

    def reduce(self) -> None:
        """The engine does with less now: earlier figures do not hold until ``restore``."""
        found = self.estimate_now()
        if found is not None:
            self.full = self.full or self.hot
            self.hot, self.source = found, "estimate"

    def restore(self) -> None:
        """Before the next way up: ask for everything that is configured again."""
        if self.full is not None and self.resident.restore():
            self.hot, self.full, self.shrunk = self.full, None, 0

    def sure(self) -> Footprint | None:
        """The figure that holds, whatever was measured since. Asks the engine; None when it cannot tell."""
        return (self.proven if self.full is None else None) or self.estimate_now()

    def prove(self) -> None:
        """The engine was measured, and nothing else with it."""
        if self.doubted and self.full is None:
            self.proven = self.hot
        self.doubted = False

    @property
    def cached(self) -> Amount:
        return cached(self.resident)

    def optional(self) -> Iterator[Saving]:
        """Memory that the engine takes only where there is room for it, in the order in which it takes the room."""
        offered = self.resident.savings()
        for kind in OPTIONAL:
            if size := offered.get(kind, 0):
                yield Saving(self.resident.id, kind, size)

    def estimate_now(self) -> Footprint | None:
        """None when the engine cannot estimate; open(), which comes next, reports what is wrong with its files."""
        try:
            return self.resident.estimate()
        except EdgeserveError:
            return None
        except Exception:
            log.exception("%s could not be estimated; its files' size decides", self.resident.spec.name)
            return None

    def observe(self) -> Move | None:
        """Note a rung that changed without the governor: mapped at startup, or closed after a failure.

        Returns the move; None where nothing is new.
        """
        uses, before, rung = self.uses, self.seen, self.resident.rung
        if rung is before or self.active:
            return None
        now = self.resident.footprint()
        # The engine moved meanwhile: the thread that moved it books the change.
        if self.uses != uses or self.resident.rung is not rung:
            return None
        if rung is Rung.WARM:
            self.warm = without_requests(now)
        elif rung is Rung.HOT and self.hot is None:
            self.measure(now)
        self.seen = rung
        return Move(before, rung, CLOSED if rung is Rung.COLD else MAPPED)

    def measure(self, taken: Footprint, measured: int | None = None) -> None:
        """Book the memory of a hot engine. ``measured`` bytes, where known, replace the sum of ``taken``."""
        # An engine that cannot measure itself reports nothing: the expected figure stays.
        if not without_requests(taken).total and measured is None:
            return
        old = self.hot or Footprint()
        private = taken.private if measured is None else max(0, measured - taken.mapped)
        mapped = taken.mapped if measured is None else min(taken.mapped, measured)
        self.hot = Footprint(mapped, private, max(taken.per_request, old.per_request), taken.device)
        self.source = "measured"

    def raise_peak(self, estimate: Footprint) -> Footprint:
        """Expect a quarter more private memory, at most twice the engine's own estimate; returns the new figure."""
        old = self.hot or Footprint()
        most = max(old.private, 2 * estimate.private)
        self.hot = dataclasses.replace(old, private=min(most, old.private + max(old.private // 4, LEAST_RAISE)))
        self.proven, self.source = self.hot, "learned"
        return self.hot

    def predict(self, before: Rung, after: Rung, own: int) -> int:
        """Bytes that a step down returns which returns ``own`` bytes by the engine's figures.

        Other memory may come back beside the engine's, such as pages of libraries. An engine of about the same size
        as last time is expected to return as much of it as last time.
        """
        last, measured = self.returned.get((before, after), (0, 0))
        return max(0, own + measured - last) if abs(own - last) <= ALIKE_SHARE * last else own

    def subtract_kept(self, kept: int) -> None:
        """``kept`` bytes did not come back when the engine left.

        They are a runtime's one-off cost: the process keeps them, and the next load does not need them again."""
        if self.hot is not None and kept > 0:
            self.hot = dataclasses.replace(self.hot, private=max(0, self.hot.private - kept))

    @property
    def request(self) -> Amount:
        return per_request(self.hot) if self.hot else NOTHING

    @property
    def standing(self) -> Amount:
        """Memory by rung, without that of open reservations. A climbing engine counts as warm, or as cold."""
        rung = self.resident.rung
        if rung is Rung.COLD:
            return self.cached
        return self.cached + (self.warm if self.climbing or rung is Rung.WARM else self._settled)

    @property
    def held(self) -> Amount:
        """Memory by rung. A climbing engine counts as hot already, and each open reservation adds one request."""
        amount = self.cached + self._settled if self.climbing else self.standing
        for _ in range(self.active):
            amount = amount + self.request
        return amount

    @property
    def _settled(self) -> Amount:
        return without_requests(self.hot) if self.hot else NOTHING

    @property
    def need(self) -> Amount:
        """Memory that one more request takes on top of ``held``: the way up to hot, and the request."""
        if self.climbing or self.resident.rung is Rung.HOT or self.hot is None:
            return self.request
        now = self.warm if self.resident.rung is Rung.WARM else NOTHING
        return (without_requests(self.hot) - now) + self.request

    def beyond(self, workers: Mapping[int, int]) -> int:
        """Bytes that the engine's worker has beyond the account."""
        return max(0, workers.get(self.resident.pid or 0, 0) - self.held.private)

    def occupancy(
        self, busy: bool, spent: Set[tuple[str, str]], waits: bool = False, workers: Mapping[int, int] = NO_WORKERS
    ) -> Occupancy:
        """``workers``: bytes of each worker by its pid, all of which end with the engine."""
        one, held = self.resident, self.held + Amount(private=self.beyond(workers))
        return Occupancy(
            id=one.id,
            name=one.spec.name,
            rung=Rung.HOT if self.climbing else one.rung,
            held=held,
            warm=self.warm + self.cached,
            requests=held - (self.cached + self._settled) if self.active else NOTHING,
            leases=one.leases,
            last_used=one.last_used,
            pinned=one.pinned,
            busy=busy or self.active > 0,
            weights=str(one.spec.files.get("model", "")),
            savings=tuple(self.savings(spent)),
            hot_until=self.hot_until,
            waits=waits,
            rests=INFO[one.spec.job].rests,
            copied=one.savings().get("copy", 0),
        )

    def savings(self, spent: Set[tuple[str, str]]) -> Iterator[Saving]:
        """Savings that the engine offers and that are not ``spent``, in the order of use."""
        offered = self.resident.savings()
        for kind in SAVING_ORDER[:1] if self.whole else SAVING_ORDER:
            if offered.get(kind, 0) > 0 and (self.resident.id, kind) not in spent:
                yield Saving(self.resident.id, kind, offered[kind])


def need_of(entry: Entry) -> Need:
    """The need of one more request, for ``plan``."""
    return Need(entry.resident.id, entry.resident.spec.name, entry.need)


def device_mapped(entries: Iterable[Entry]) -> int:
    """Bytes of llama.cpp's weights that an accelerator uses where they are mapped; each file counts once."""
    found: dict[str, int] = {}
    for entry in entries:
        spec = entry.resident.spec
        if INFO[spec.job].mapped and spec.device != "cpu":
            weights = str(spec.files.get("model", spec.id))
            found[weights] = max(found.get(weights, 0), entry.held.mapped)
    return sum(found.values())
