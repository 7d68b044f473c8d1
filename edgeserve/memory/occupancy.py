"""Memory that engines occupy by the accounts, and the memory that one of them needs: sums over engines and rungs."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Literal

from edgeserve.dataclass import dataclass
from edgeserve.engine import Rung
from edgeserve.memory.amount import NOTHING, Amount
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.system.readings import Readings

SavingKind = Literal["prefix_cache", "context", "image", "optional_context", "reordered", "draft"]
SAVING_ORDER: tuple[SavingKind, ...] = ("prefix_cache", "context", "image")
"""Savings that come before eviction, in this order."""
OPTIONAL: tuple[SavingKind, ...] = ("optional_context", "reordered", "draft")
"""Memory that an engine takes only where there is room for it (memory/optional_memory.py). Each kind takes the room
that those before it leave. Engines give all of it back before the savings."""
WHOLE: tuple[SavingKind, ...] = ("reordered", "draft")
"""Kinds of optional memory that an engine has as a whole, or not at all."""


@dataclass(frozen=True, slots=True)
class Saving:
    """Memory that an engine can do without, in ``private`` bytes."""

    id: str
    kind: SavingKind
    private: int


@dataclass(frozen=True, slots=True)
class Occupancy:
    """Memory that one engine occupies, and the facts that decide whether it may step down.

    - ``held``: memory now. ``warm``: memory that would be left on warm.
    - ``requests``: bytes of ``held`` that come free when the requests under way end.
    - ``last_used``: on the accounts' clock.
    - ``busy``: the engine has an open reservation, or could not be moved a moment ago.
    - ``hot_until``: end of the time for which the engine stays hot while it has work, on the accounts' clock.
    - ``copied``: bytes of a private copy of the weights that the hot engine holds for speed alone.
    - ``waits``: a request of the engine waits for memory. The thread of that request alone moves the engine.
    - ``rests``: its answers rest soon when another engine waits for its memory.
    - ``weights``: engines with the same value map one file, which is in memory once.
    """

    id: str
    name: str
    rung: Rung
    held: Amount
    warm: Amount = NOTHING
    requests: Amount = NOTHING
    leases: int = 0
    last_used: float = 0.0
    pinned: bool = False
    busy: bool = False
    weights: str = ""
    savings: tuple[Saving, ...] = ()
    hot_until: float = -math.inf
    waits: bool = False
    rests: bool = False
    copied: int = 0

    def at(self, rung: Rung) -> Amount:
        """Memory on ``rung``, which is not above the engine's own."""
        return self.held if rung >= self.rung else self.warm if rung is Rung.WARM else NOTHING

    def at_rest(self) -> Occupancy:
        """The engine on its rung once the requests under way have ended."""
        return dataclasses.replace(self, held=self.held - self.requests, requests=NOTHING)

    @property
    def lasts(self) -> bool:
        """True while an answer that does not rest is under way. It may last for minutes."""
        return self.busy and not self.rests

    @property
    def used(self) -> bool:
        """True while requests hold, or use, the engine."""
        return self.busy or self.leases > 0

    def kept(self, now: float) -> bool:
        """True while the engine stays hot because it has work, and has not been hot for long."""
        return self.rung is Rung.HOT and self.used and now < self.hot_until

    def may_leave(self, now: float) -> bool:
        """True when the engine may make way for a waiting request now: no answer is under way."""
        return not (self.busy or self.waits or self.pinned or self.kept(now))

    def may_step_down(self, now: float, policy: MemoryPolicy) -> bool:
        """True for an idle engine: not leased, at work, pinned or cold, and past its grace time."""
        stays = self.used or self.pinned or self.rung is Rung.COLD
        return not stays and now - self.last_used >= policy.grace_seconds


@dataclass(frozen=True, slots=True)
class Need:
    """Memory that an engine wants on top of the memory that it holds."""

    id: str
    name: str
    amount: Amount


Rungs = Mapping[str, Rung]
"""Assumed rungs by the engines' ids; an engine that is not listed stays on its own."""


def booked(residents: Sequence[Occupancy], rungs: Rungs, need: Need | None = None) -> Amount:
    """Memory of all engines on these rungs, ``need`` included. Shared weights count once."""
    private = device = 0
    mapped: dict[str, int] = {}
    for one in residents:
        held = one.at(rungs.get(one.id, one.rung))
        if need is not None and one.id == need.id:
            held = held + need.amount
        private, device = private + held.private, device + held.device
        weights = one.weights or one.id
        mapped[weights] = max(mapped.get(weights, 0), held.mapped)
    return Amount(sum(mapped.values()), private, device)


def overhead(residents: Sequence[Occupancy], readings: Readings) -> int:
    """Private bytes of the process that no engine's account explains: the server itself, and free pages of the heap."""
    return max(0, readings.unreclaimable - sum(one.held.private for one in residents))
