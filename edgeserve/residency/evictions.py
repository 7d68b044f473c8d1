"""Steps down that a user asks for."""

from __future__ import annotations

from edgeserve.engine import Rung
from edgeserve.errors import Busy
from edgeserve.memory.governor import Governor
from edgeserve.residency.aside import Aside
from edgeserve.residency.gate import Gate

PATIENCE = 5.0
"""Seconds for which an eviction waits for an engine that nobody uses and that moves: the monitor may be first."""


class Evictions:
    """Used on the event loop's thread; the engines move on threads of their own."""

    def __init__(self, governor: Governor) -> None:
        self._governor = governor
        self._aside = Aside("moves of engines", threads=2)

    async def evict(self, gate: Gate, to: Rung) -> bool:
        """As ``Pool.evict``."""
        return await self._aside.run(self._evict, gate, to)

    def _evict(self, gate: Gate, to: Rung) -> bool:
        if not gate.leases:
            with gate.host.hold(PATIENCE):  # let go at once: the move below takes it, as every move does
                pass
        self._governor.step_down(gate, to, "requested")
        return gate.rung <= to and not gate.host.loading


def in_use(gate: Gate) -> Busy:
    """The error for an engine that could not step down."""
    if not gate.leases:
        return Busy(f"{gate.id} loads or moves at the moment; try again", retry_after=5)
    if gate.leases == 1:
        return Busy(f"{gate.id} is answering a request; it is not closed under it, try again", retry_after=5)
    text = f"{gate.id} is answering {gate.leases} requests; it is not closed under them, try again"
    return Busy(text, retry_after=5)
