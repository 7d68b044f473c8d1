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
    """Calls on the worker thread of the engine that wants memory. ``trim`` returns the heap's free pages.

    ``all_since`` as in ``Reservations``.
    """

    def __init__(
        self, accounts: Accounts, mover: Mover, trim: Callable[[], object], all_since: Callable[[float], bool]
    ) -> None:
        self._accounts = accounts
        self._mover = mover
        self._trim, self._all_since = trim, all_since
        self._trims, self._trimmed_at = 0, -math.inf

    def clear(self, attempt: Attempt, turn: Turn, readings: Readings) -> bool:
        """Return remains where no engine makes room, and what is missing may be theirs. True: look again.

        First free pages of the heap, once in ``QUIET_SECONDS`` for all requests. Then, while no request runs, the other
        engines step down one by one. At last the request's own goes to warm, once, beside others as well. What is left
        beyond the end of all answers, and for ``queue_seconds``, is the server's own. Raises ShuttingDown.
        """
        stands = turn.way or turn.decision.verdict not in (Verdict.WAIT, Verdict.REFUSE)
        if stands or not 0 < turn.decision.missing <= self._unexplained(attempt.entry, readings):
            return False
        return self._clear_heap(attempt) or self._clear_engines(attempt) or self._outlasts(attempt)

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
            self._own_up()
        return False

    def _outlasts(self, attempt: Attempt) -> bool:
        """Whether what is left has outlasted all answers under way when the request came to wait for it.

        It would wait for a moment without answers, which may never come, and its engine with it.
        """
        now = self._accounts.clock()
        since = attempt.hopes_since = now if attempt.hopes_since is None else attempt.hopes_since
        early = now - since < self._accounts.policy.queue_seconds
        if early or attempt.terms.resumed or not self._all_since(since):
            return False
        attempt.hopes_since = None
        self._own_up()
        return True

    def _own_up(self) -> None:
        """Count the rest as the server's own."""
        with self._accounts.changed:
            self._accounts.least_base = max(self._accounts.least_base, self._accounts.base() - self._accounts.passing)
