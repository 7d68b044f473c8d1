"""Clients that read or send slowly make way for a request that waits for memory."""

from __future__ import annotations

import logging

from edgeserve.memory.accounts import Accounts
from edgeserve.memory.switch import Attempt
from edgeserve.memory.way import Turn

log = logging.getLogger("edgeserve.memory")

PATIENCE = 5.0
"""Seconds for which a request waits before slow clients are cut whose bytes alone keep it out."""
GAP = 1.0
"""Seconds between two bodies that are refused for one request: the memory of the first may be enough."""


class Urging:
    """Calls on the worker thread of the engine that wants memory."""

    def __init__(self, accounts: Accounts) -> None:
        self._accounts = accounts

    def urge(self, attempt: Attempt, turn: Turn) -> None:
        """Urge those for whom a request waits: answers in its way, or bytes that pass, where they alone are in it."""
        self._urge_way(attempt, turn)
        now = self._accounts.clock()
        if turn.way or not turn.decision.missing or now < max(attempt.arrived + PATIENCE, attempt.urged_at + GAP):
            return
        attempt.urged_at = now
        for other in self._accounts:
            other.resident.cut_unread()
        self._accounts.traffic.ease(turn.decision.missing)

    def _urge_way(self, attempt: Attempt, turn: Turn) -> None:
        """Have the answers in the way look whether they may rest, and cut those that nobody reads."""
        for step in turn.way:
            if (other := self._accounts.find(step.id)) is None:
                continue
            other.resident.wake()
            if other.resident.unread:
                text = "%s needs memory: answers of %s that nobody reads are cut"
                log.info(text, attempt.entry.resident.spec.name, other.resident.spec.name)
                other.resident.cut_all_unread()
