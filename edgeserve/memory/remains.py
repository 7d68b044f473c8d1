"""What requests that have ended leave behind: it goes before it may keep another request out."""

from __future__ import annotations

import math
from collections.abc import Callable

from edgeserve.engine import Rung
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.budget import Budget
from edgeserve.memory.entry import Entry
from edgeserve.memory.mover import Mover
from edgeserve.memory.plan import Verdict
from edgeserve.memory.switch import Attempt
from edgeserve.memory.way import Turn
from edgeserve.system import heap
from edgeserve.system.readings import Readings

TRIM_EVERY = 1.0
"""Seconds between two returns of the heap's free pages while a request has no room."""


class Remains:
    """Calls on the worker thread of the engine that wants memory. ``trim`` returns the heap's free pages."""

    def __init__(self, accounts: Accounts, mover: Mover, trim: Callable[[], object] = heap.trim) -> None:
        self._accounts = accounts
        self._mover = mover
        self._trim = trim
        self._trimmed_at = -math.inf

    def clear(self, attempt: Attempt, turn: Turn, readings: Readings, limit: Budget) -> bool:
        """Return remains where no engine could make room by its account. True: memory may have come free, look again.

        First free pages of the heap. Then all engines step down, the request's own to warm, where what is missing may
        be theirs. That is done once for a request, while no other runs.
        """
        if turn.way or turn.decision.verdict not in (Verdict.WAIT, Verdict.REFUSE):
            return False
        now = self._accounts.clock()
        if now - self._trimmed_at >= TRIM_EVERY:
            self._trimmed_at = now
            self._trim()
            return True
        if attempt.cleared or not self._accounts.no_reservations():
            return False
        if not 0 < turn.decision.missing <= self._unexplained(attempt.entry, readings, limit):
            return False
        attempt.cleared = True
        others = [one for one in self._accounts if one is not attempt.entry and not one.resident.pinned]
        moves = [self._mover.step_down(one, Rung.COLD, "memory_needed", leased=True) for one in others]
        moves.append(self._mover.step_down(attempt.entry, Rung.WARM, "memory_needed", leased=True))
        return any(moves)

    def _unexplained(self, entry: Entry, readings: Readings, limit: Budget) -> int:
        """Bytes that neither accounts nor requests under way explain, nor the server at rest, or this engine's own."""
        accounts = self._accounts
        with accounts.changed:
            unbooked, _ = accounts.beside(readings, limit)
            beyond = entry.beyond(readings.process.workers)
            return beyond + max(0, unbooked - accounts.least_base - accounts.passing_of_others(readings))
