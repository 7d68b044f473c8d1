"""Remains of requests that have ended: they go before they may keep another request out."""

from __future__ import annotations

import math
from collections.abc import Callable

from edgeserve.engine import Rung
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.entry import Entry
from edgeserve.memory.mover import Mover
from edgeserve.memory.plan import Verdict
from edgeserve.memory.relief import QUIET_SECONDS
from edgeserve.memory.switch import Attempt
from edgeserve.memory.traffic import own
from edgeserve.memory.way import Turn
from edgeserve.system.readings import Readings


class Remains:
    """Calls on the worker thread of the engine that wants memory. ``trim`` returns the heap's free pages."""

    def __init__(self, accounts: Accounts, mover: Mover, trim: Callable[[], object]) -> None:
        self._accounts = accounts
        self._mover = mover
        self._trim = trim
        self._trims, self._trimmed_at = 0, -math.inf

    def clear(self, attempt: Attempt, turn: Turn, readings: Readings) -> bool:
        """Return remains where no engine makes room, and what is missing may be theirs. True: look again.

        First free pages of the heap, once in ``QUIET_SECONDS`` for all requests. Then, while no request runs, the other
        engines step down one by one. At last the request's own goes to warm, once, beside others as well. Where others
        are at work, they make way, too. Raises ShuttingDown.
        """
        if turn.way or turn.decision.verdict not in (Verdict.WAIT, Verdict.REFUSE):
            return False
        if 0 < turn.decision.missing <= self._unexplained(attempt.entry, readings) and (
            self._clear_heap(attempt) or self._clear_engines(attempt) or self._drains(attempt)
        ):
            return True
        self._end_drain(attempt)
        return False

    def _unexplained(self, entry: Entry, readings: Readings) -> int:
        """Bytes that neither accounts nor requests under way explain, nor the least that the server had at rest."""
        accounts = self._accounts
        with accounts.changed:
            known = accounts.least_base + accounts.passing_of_others(readings) + own.get().held
            return entry.beyond(readings.process.workers) + max(0, accounts.unbooked(readings) - known)

    def _clear_heap(self, attempt: Attempt) -> bool:
        now = self._accounts.clock()
        if attempt.trims is None:
            attempt.trims = self._trims
        left = self._trimmed_at + QUIET_SECONDS - now
        if left <= 0:
            self._trims, self._trimmed_at = self._trims + 1, now
            self._trim()
            self._trimmed_at = self._accounts.clock()
        elif attempt.trims == self._trims:
            self._accounts.pause(left, attempt.seen)
        else:
            return False
        return True

    def _clear_engines(self, attempt: Attempt) -> bool:
        alone = self._accounts.no_reservations()
        if alone and not attempt.cleared:
            others = [one for one in self._accounts if one is not attempt.entry and not one.resident.pinned]
            others.sort(key=lambda one: one.resident.last_used)
            if any(self._mover.step_down(one, Rung.COLD, "memory_needed", leased=True) for one in others):
                return True
            attempt.cleared = True
        if not attempt.parked:
            attempt.parked = True
            if self._mover.step_down(attempt.entry, Rung.WARM, "memory_needed", leased=True) is not None:
                return True
        if alone:
            with self._accounts.changed:  # what is left is the server's own
                least = self._accounts.base() - self._accounts.passing
                self._accounts.least_base = max(self._accounts.least_base, least)
        return False

    def _drains(self, attempt: Attempt) -> bool:
        """Have all engines make way, once: a moment without answers, which shows what is the server's own.

        Beside answers without a gap it may never come. The request would wait for it, and its engine with it.
        """
        if attempt.ticket is None or attempt.drained or self._accounts.no_reservations():
            return False
        with self._accounts.changed:
            attempt.ticket.drains = attempt.drained = True
        return True

    def _end_drain(self, attempt: Attempt) -> None:
        """The engines that made way may go up again. What is missing now are files of others, which may stay."""
        ticket, accounts = attempt.ticket, self._accounts
        with accounts.changed:
            there = (one for one in accounts if one is not attempt.entry and one.resident.rung > Rung.COLD)
            if ticket is not None and ticket.drains and all(one.resident.pinned for one in there):
                ticket.drains = False
                accounts.stir()
