"""The sets of adapters in turns: llama.cpp applies one set to a whole call."""

from __future__ import annotations

from collections.abc import Sequence

from edgeserve.engines.llama.adapters import Active
from edgeserve.engines.llama.slot import Slot

TURN = 4
"""Calls for one set of adapters while another waits. A change of the set costs about half a step of a small model.

A call that reads a prompt takes up to ``pieces.GAP`` seconds, and is a turn alone."""


class AdapterTurns:
    """``now``: the set of the latest call."""

    def __init__(self) -> None:
        self.now: Active = ()
        self._calls = 0
        """Calls of that set in this turn."""
        self._served: dict[Active, int] = {}
        """Number of the latest call of each set that slots have."""

    def choose(self, waiting: Sequence[Slot]) -> Active:
        """The set of the next call: that of this turn, else the one that waits for the most calls."""
        on_turn = self._calls < TURN and any(slot.adapters == self.now for slot in waiting)
        if on_turn or not waiting:
            return self.now
        # A slot that got no tokens in the calls of its set must not give the set the next turn, too.
        return min(waiting, key=lambda one: max(one.stepped, self._served.get(one.adapters, 0))).adapters

    def note(self, adapters: Active, call: int, slots: Sequence[Slot], *, long: bool = False) -> None:
        """Count a call. ``slots``: those whose sets are remembered; ``long``: it read a prompt, which ends the turn."""
        self._calls = TURN if long else self._calls + 1 if adapters == self.now else 1
        self.now = adapters
        self._served = {slot.adapters: self._served.get(slot.adapters, 0) for slot in slots if slot.busy}
        self._served[adapters] = call
