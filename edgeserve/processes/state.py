"""Rung and figures of an engine in a worker, for the serving process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field

from edgeserve.dataclass import dataclass
from edgeserve.engine import Footprint, Rung
from edgeserve.slots import SlotState

MOST_SLOTS, MOST_BYTES = 4096, 1 << 50
"""Upper bounds of figures, beyond those of any machine."""


@dataclass(frozen=True, slots=True)
class EngineState:
    """Figures as of the engine's last change; fields as in ``edgeserve.engine``. ``rung``: the number of a Rung."""

    rung: int = 0
    footprint: Footprint = field(default_factory=Footprint)
    savings: Mapping[str, int] = field(default_factory=dict)
    context_tokens: int | None = None
    slots: int = 1
    starved: bool = False
    confined: Mapping[str, str] = field(default_factory=dict)
    """Layers of the worker's confinement: on, or off and why."""
    slot_states: tuple[SlotState, ...] = ()
    beside: int = 0
    """Answers beyond ``slots``; see ``Batching.beside``."""

    def check(self) -> None:
        """Raises ValueError for figures that no engine can have."""
        sizes = [self.footprint.mapped, self.footprint.private, self.footprint.per_request, self.footprint.device]
        sizes += [*self.savings.values(), self.context_tokens or 0]
        sizes += [count for one in self.slot_states for count in (one.tokens, one.drafted, one.accepted)]
        if self.rung not in list(Rung) or not 1 <= self.slots <= MOST_SLOTS or len(self.slot_states) > self.slots:
            raise ValueError(f"rung {self.rung} and {self.slots} slots")
        if not 0 <= self.beside <= MOST_SLOTS:
            raise ValueError(f"{self.beside} answers beside the slots")
        if not all(0 <= size <= MOST_BYTES for size in sizes):
            raise ValueError(f"an engine of {sizes} bytes")
