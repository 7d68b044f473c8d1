"""Key-value states of past prompts, kept in memory beside the context that made them.

A conversation that was put aside, or parked with its engine, goes on from the longest prefix that is still known, as in
llama.cpp's own server (``--cache-ram``). States are the first memory that the governor takes back.
"""

from __future__ import annotations

import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True, eq=False)
class SavedState:
    """``data`` as llama.cpp wrote it (``llama_state_seq_get_data``), good for exactly ``tokens``."""

    tokens: tuple[int, ...]
    data: Any

    @property
    def size(self) -> int:
        return len(self.data)


class PrefixCache:
    """At most ``limit`` bytes, the least recently used out first. ``whole``: a state serves only prompts that begin
    with all of it, since the model cannot take tokens back (sliding windows, recurrent layers).

    One thread at a time; ``size`` may be read by any.
    """

    def __init__(self, limit: int, *, whole: bool = False) -> None:
        self.limit = limit
        self.whole = whole
        self.size = 0
        self._states: list[SavedState] = []
        """Least recently used first."""

    def __len__(self) -> int:
        return len(self._states)

    def best(self, tokens: Sequence[int]) -> tuple[SavedState | None, int]:
        """The state that shares the longest prefix with ``tokens``, and how many tokens of it can be used."""
        found, longest = None, 0
        for state in self._states:
            length = shared(state.tokens, tokens)
            if length > longest and (not self.whole or length == len(state.tokens)):
                found, longest = state, length
        return found, longest

    def touch(self, state: SavedState) -> None:
        """It was used just now."""
        if state in self._states:
            self._states.remove(state)
            self._states.append(state)

    def put(self, state: SavedState) -> bool:
        """Keep a state in place of those that it can stand for; False when it is larger than the limit."""
        if state.size > self.limit:
            return False
        for old in [one for one in self._states if self._stands_for(state, one)]:
            self._drop(old)
        self._states.append(state)
        self.size += state.size
        self.shrink(self.limit)
        return True

    def shrink(self, limit: int) -> None:
        """Let the least recently used go until at most ``limit`` bytes are kept."""
        while self.size > limit:
            self._drop(self._states[0])

    def _stands_for(self, new: SavedState, old: SavedState) -> bool:
        beginning = new.tokens[: len(old.tokens)] == old.tokens
        return beginning and (not self.whole or len(new.tokens) == len(old.tokens))

    def _drop(self, state: SavedState) -> None:
        self._states.remove(state)
        self.size -= state.size


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    return len(list(itertools.takewhile(bool, map(operator.eq, one, other))))
