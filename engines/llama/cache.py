"""Saved states: the KV caches of evicted sequences, in memory, and on disk where configured.

A conversation goes on from its longest saved prefix, as in llama.cpp's own server (``--cache-ram``). Saved states are
the first memory that the governor takes back.

Every state has a salt. A prompt finds states of its own salt only. No salt evicts the states of another salt that takes
no more than its share (docs/decisions/0008-prefix-cache-salts.md).
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar


class State(Protocol):
    """A saved state in memory or in a file: its tokens, its size in bytes and its salt."""

    @property
    def tokens(self) -> Sequence[int]: ...
    @property
    def size(self) -> int: ...
    @property
    def salt(self) -> str: ...


class Salted(Protocol):
    @property
    def salt(self) -> str: ...


S = TypeVar("S", bound=State)
T = TypeVar("T", bound=Salted)

WORTH_SAVING = 32
"""Tokens. To decode fewer again takes less time than to find, copy and restore a state."""
REMEMBERED = 16
"""Evicted states to remember."""
COPY_PAUSE = 64
"""Prompts to wait, after one asked for an evicted state, before copying may evict again. Each further such prompt
doubles the wait."""


@dataclass(frozen=True, slots=True, eq=False)
class SavedState:
    """The state of exactly ``tokens``; ``data`` as ``llama_state_seq_get_data`` wrote it."""

    tokens: tuple[int, ...]
    data: Any
    salt: str = ""

    @property
    def size(self) -> int:
        return len(self.data)


class StateCache(Generic[S]):
    """At most ``limit`` bytes of states. It evicts the least recently used state of the salt that takes the most.

    ``whole``: a state serves only prompts that begin with all of its tokens. The model cannot remove tokens from a
    state when it has a sliding window or recurrent layers.

    One thread at a time; any thread may read ``size``.
    """

    def __init__(self, limit: int, *, whole: bool = False) -> None:
        self.limit = limit
        self.whole = whole
        self.size = 0
        self._states: list[S] = []
        """Least recently used first."""

    def __len__(self) -> int:
        return len(self._states)

    def longest(self, tokens: Sequence[int], salt: str = "") -> tuple[S | None, int]:
        """The state of this salt that shares the longest prefix with ``tokens``, and the length of that prefix."""
        found, longest = None, 0
        for state in self._states:
            length = shared(state.tokens, tokens) if state.salt == salt else 0
            if length > longest and (not self.whole or length == len(state.tokens)):
                found, longest = state, length
        return found, longest

    def touch(self, state: S) -> None:
        """Mark the state as the most recently used."""
        if state in self._states:
            self._states.remove(state)
            self._states.append(state)

    def add(self, state: S) -> bool:
        """Keep a state instead of the states that it covers, and evict others when there is no room.

        False when that would take another salt's share.
        """
        if not self._make_room(state.tokens, state.size, state.salt):
            return False
        self._states.append(state)
        self.size += state.size
        return True

    def fits(self, tokens: Sequence[int], size: int, salt: str = "") -> bool:
        """Whether a state of ``size`` bytes has room when only the states that it covers are dropped."""
        gone = sum(one.size for one in self._states if self._covers(tokens, salt, one))
        return self.size - gone + size <= self.limit

    def discard(self, tokens: Sequence[int], salt: str = "") -> None:
        """Drop the state of exactly these tokens, if it is kept."""
        for one in self._states[:]:
            if len(one.tokens) == len(tokens) and self._covers(tokens, salt, one):
                self._drop(one)

    def victims(self, tokens: Sequence[int], size: int, salt: str) -> list[S] | None:
        """The states to evict for one of ``size`` bytes, besides those that it covers.

        None when the new state would take another salt's share.
        """
        if size > self.limit:
            return None
        kept = [one for one in self._states if not self._covers(tokens, salt, one)]
        over, gone = sum(one.size for one in kept) + size - self.limit, []
        while over > 0:
            one = next_victim(kept, _bytes, {salt: size})
            if one is None:
                return None
            kept.remove(one)
            gone.append(one)
            over -= one.size
        return gone

    def _make_room(self, tokens: Sequence[int], size: int, salt: str) -> bool:
        gone = self.victims(tokens, size, salt)
        if gone is None:
            return False
        for old in [one for one in self._states if self._covers(tokens, salt, one)]:
            self._drop(old)
        for old in gone:
            self._evict(old)
        return True

    def shrink(self, limit: int) -> None:
        """Evict states until at most ``limit`` bytes are kept."""
        while self.size > limit:
            self._evict(next_victim(self._states, _bytes) or self._states[0])

    def _evict(self, state: S) -> None:
        """Drop a state for lack of room."""
        self._drop(state)

    def _drop(self, state: S) -> None:
        self._states.remove(state)
        self.size -= state.size

    def _covers(self, tokens: Sequence[int], salt: str, old: State) -> bool:
        """Whether a state of ``tokens`` serves every prompt that ``old`` serves."""
        beginning = salt == old.salt and shared(tokens, old.tokens) == len(old.tokens)
        return beginning and (not self.whole or len(tokens) == len(old.tokens))


class PrefixCache(StateCache[SavedState]):
    """Saved states in memory. States that it evicts go to ``disk``.

    For the next ``copy_pause`` prompts, no copy of an idle slot evicts another state.
    """

    def __init__(self, limit: int, *, whole: bool = False, disk: Disk | None = None) -> None:
        super().__init__(limit, whole=whole)
        self._disk = disk
        self._evicted: deque[tuple[str, Sequence[int]]] = deque(maxlen=REMEMBERED)
        self.copy_pause = 0
        self._next_pause = COPY_PAUSE
        self._stopped = False

    def admits_copy(self, tokens: Sequence[int], size: int, salt: str = "") -> bool:
        """Whether to keep a copy of an idle slot that is still in the context.

        A copy may evict other states as long as no prompt asks for those again. The cache remembers the evicted states,
        as ARC does (Megiddo and Modha, 2003).
        """
        if self._stopped:
            return False
        if self.fits(tokens, size, salt):
            return True
        if self.copy_pause or self._disk is not None:
            return False
        leaving = self.victims(tokens, size, salt)
        if leaving is None:
            return False
        self._evicted.extend((state.salt, state.tokens) for state in leaving)
        return True

    def stop_copies(self) -> None:
        """Make no copies for a while: memory is short, and the governor would take them back."""
        self.copy_pause, self._stopped = self._next_pause, True

    def note_prompt(self, tokens: Sequence[int], known: int, salt: str = "") -> None:
        """Count a new prompt, of which ``known`` tokens are cached; adjusts ``copy_pause``."""
        if any(salt == of and shared(lost, tokens) >= known + WORTH_SAVING for of, lost in self._evicted):
            self._evicted.clear()
            self.copy_pause = self._next_pause
            self._next_pause *= 2
        elif self.copy_pause:
            self.copy_pause -= 1
            self._stopped = self._stopped and self.copy_pause > 0

    @property
    def largest(self) -> int:
        """Bytes of the largest state that can be kept."""
        return max(self.limit, self._disk.limit if self._disk is not None else 0)

    def best(self, tokens: Sequence[int], salt: str = "") -> tuple[State | None, int]:
        """As ``longest``, in memory and on disk."""
        here: tuple[State | None, int] = self.longest(tokens, salt)
        there = self._disk.longest(tokens, salt) if self._disk is not None else (None, 0)
        return there if there[1] > here[1] else here

    def fetch(self, state: State) -> Any | None:
        """The data of a state that ``best`` found, marked as used; None when it is gone."""
        if isinstance(state, SavedState):
            self.touch(state)
            return state.data
        return self._disk.read(state) if self._disk is not None else None

    def put(self, state: SavedState) -> bool:
        """Keep a state in memory, else on disk. False when neither has room for it."""
        if self.add(state):
            return True
        return self._disk.write(state) if self._disk is not None else False

    def _evict(self, state: SavedState) -> None:
        super()._evict(state)
        if self._disk is not None:
            self._disk.write(state)


class Disk(Protocol):
    """Saved states in files (engines/llama/states.py)."""

    limit: int

    def longest(self, tokens: Sequence[int], salt: str) -> tuple[State | None, int]: ...

    def read(self, state: Any) -> Any | None: ...

    def write(self, state: SavedState) -> bool: ...


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    return len(list(itertools.takewhile(bool, map(operator.eq, one, other))))


def next_victim(ones: Iterable[T], size: Callable[[T], int], more: Mapping[str, int] | None = None) -> T | None:
    """The first of ``ones`` that has the salt which takes the most; ``ones`` begin with the least recently used.

    ``more``: size that a salt takes besides. None when the salt that takes the most has none of ``ones``.
    """
    listed = list(ones)
    taken = Counter(more or {})
    for one in listed:
        taken[one.salt] += size(one)
    most = max(taken.values(), default=0)
    return next((one for one in listed if taken[one.salt] == most), None)


def _bytes(state: State) -> int:
    return state.size
