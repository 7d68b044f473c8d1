"""Doubts: what was learned of an engine keeps no request out by itself."""

from __future__ import annotations

import logging

from edgeserve.engine import Footprint, Rung
from edgeserve.memory.accounts import Accounts
from edgeserve.memory.amount import Amount, per_request, without_requests
from edgeserve.memory.entry import Entry
from edgeserve.memory.mover import Mover
from edgeserve.memory.plan import Decision, Verdict
from edgeserve.units import MB

log = logging.getLogger("edgeserve.memory")


class Doubts:
    """Calls on the worker thread of the engine that wants memory.

    An engine measures itself by the growth of a process, and other requests may have taken a part of it. So a measured
    figure refuses nobody whom the engine's own estimate lets in. The engine starts anew, from cold, and its next exact
    measurement holds. A figure holds at once where the system has killed the engine at less.
    """

    def __init__(self, accounts: Accounts, mover: Mover) -> None:
        self._accounts = accounts
        self._mover = mover

    def lower(self, entry: Entry, decision: Decision) -> bool:
        """Expect less of the engine where the measured surplus alone refuses. True: decide again.

        Or where it has the request wait for files of others alone, which may stay.
        """
        refuses = decision.verdict in (Verdict.REFUSE, Verdict.WAIT)
        if not refuses or not 0 < decision.missing <= (surplus := _surplus(entry)):
            return False
        if entry.resident.rung > Rung.COLD:
            self._mover.step_down(entry, Rung.COLD, "memory_needed", leased=True)
        if entry.resident.rung > Rung.COLD:
            return False
        text = "%s is not refused for %.1f MB by which it was measured above its estimate: it is measured anew"
        log.info(text, entry.resident.spec.name, surplus / MB)
        self._accounts.peaks.doubt(entry.resident.spec)
        entry.restore()
        entry.hot, entry.source, entry.doubted = entry.sure(), "estimate", True
        return True


def _surplus(entry: Entry) -> int:
    """Bytes of the figure that the engine itself knows nothing of: those of others, or of an earlier version of it."""
    if entry.hot is None or (sure := entry.sure()) is None:
        return 0
    return (_whole(entry.hot) - _whole(sure)).host


def _whole(one: Footprint) -> Amount:
    return without_requests(one) + per_request(one)
