"""Gates that leave the pool: removed or replaced, while their last answers run."""

from __future__ import annotations

import math

from edgeserve.memory.governor import Governor
from edgeserve.residency.aside import Aside
from edgeserve.residency.gate import Gate
from edgeserve.residency.prefetches import Prefetches
from edgeserve.system.prefetch import Prefetch


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
        """Wait until the answers under way have ended whole, then close the engine."""
        self._gates.append(gate)
        try:
            await self._removals.run(self._close, gate, self._prefetches.pop(gate.id))
        finally:
            self._gates.remove(gate)

    def _close(self, gate: Gate, prefetch: Prefetch) -> None:
        prefetch.stop()
        gate.drain(math.inf)
        gate.stop()
        self._governor.forget(gate)
