"""A move of an engine between its rungs."""

from __future__ import annotations

from edgeserve.dataclass import dataclass
from edgeserve.engine import Rung

LOAD = "load"
"""Reason of a way up to hot, for a request or by hand."""
MAPPED, CLOSED = "mapped", "closed"
"""Reasons of moves that the accounts only noticed: opened beside the governor, or closed after a failure."""


@dataclass(frozen=True, slots=True)
class Move:
    """``began`` and ``ended`` in seconds of one clock; both 0 where nobody timed the move.

    ``expected`` and ``freed``: bytes of a step down that was verified; ``expected`` is None for other moves.
    """

    before: Rung
    after: Rung
    reason: str
    began: float = 0.0
    ended: float = 0.0
    expected: int | None = None
    freed: int = 0
