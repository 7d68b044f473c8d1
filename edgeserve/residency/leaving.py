"""Gates that leave the pool: removed or replaced, while their last answers run."""

from __future__ import annotations

from edgeserve.memory.governor import Governor
from edgeserve.residency.aside import Aside
from edgeserve.residency.gate import Gate
from edgeserve.residency.prefetches import Prefetches
from edgeserve.system.prefetch import Prefetch

LOOK_SECONDS = 5.0
"""Time between two looks for answers that nobody reads: a slow reader must not hold up the engine that comes next."""
WHY = "its model was replaced or removed"


class Leaving:
    """Used on the event loop's thread."""

    def __init__(self, governor: Governor, prefetches: Prefetches) -> None:
        self._governor, self._prefetches = governor, prefetches
        self._gates: list[Gate] = []
        self._removals = Aside("models that leave", threads=16)

    @property
    def gates(self) -> tuple[Gate, ...]:
        """The gates that have not left yet."""
        return tuple(self._gates)

    async def leave(self, gate: Gate) -> None:
        """Wait until the answers under way have ended, then close the engine. Answers that nobody reads are cut."""
        self._gates.append(gate)
        try:
            await self._removals.run(self._close, gate, self._prefetches.pop(gate.id))
        finally:
            self._gates.remove(gate)

    def _close(self, gate: Gate, prefetch: Prefetch) -> None:
        prefetch.stop()
        while not gate.drain(gate.clock() + LOOK_SECONDS):
            gate.cut_unread(WHY)
        gate.stop()
        self._governor.forget(gate)
