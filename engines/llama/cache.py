"""Key-value states of past prompts, kept in memory beside the context that made them, and on disk where configured.

A conversation that was put aside, or parked with its engine, goes on from the longest prefix that is still known, as in
llama.cpp's own server (``--cache-ram``). States are the first memory that the governor takes back.

Every state has a salt. A prompt finds states of its own salt only, and no salt pushes another's states out as long as
those take no more than their share (docs/decisions/0008-prefix-cache-salts.md).
"""

from __future__ import annotations

import itertools
import operator
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, Protocol, TypeVar


class State(Protocol):
    """What is known of one: its tokens, the bytes that it takes and the salt that it belongs to."""

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
"""Tokens: fewer are decoded again in less time than a state takes to find, copy and restore."""
LOST, CAREFUL = 16, 64
"""States that went for copies and are remembered; prompts after the first of them was asked for, until copies may take
the place of others again: after the next one twice as many, and so on."""


@dataclass(frozen=True, slots=True, eq=False)
class SavedState:
    """``data`` as llama.cpp wrote it (``llama_state_seq_get_data``), good for exactly ``tokens``."""

    tokens: tuple[int, ...]
    data: Any
    salt: str = ""

    @property
    def size(self) -> int:
        return len(self.data)


class Shelf(Generic[S]):
    """At most ``limit`` bytes. Out first goes the least recently used state of the salt that has the most. ``whole``: a
    state serves only prompts that begin with all of it, since the model cannot take tokens back (sliding windows,
    recurrent layers).

    One thread at a time; ``size`` may be read by any.
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
        """The state of this salt that shares the longest prefix with ``tokens``, and how many tokens can be used."""
        found, longest = None, 0
        for state in self._states:
            length = shared(state.tokens, tokens) if state.salt == salt else 0
            if length > longest and (not self.whole or length == len(state.tokens)):
                found, longest = state, length
        return found, longest

    def touch(self, state: S) -> None:
        """It was used just now."""
        if state in self._states:
            self._states.remove(state)
            self._states.append(state)

    def add(self, state: S) -> bool:
        """Keep a state in place of those that it can stand for; more go where there is no room. False when the room is
        other salts', none of which has more than this one would have."""
        if not self._make_room(state.tokens, state.size, state.salt):
            return False
        self._states.append(state)
        self.size += state.size
        return True

    def fits(self, tokens: Sequence[int], size: int, salt: str = "") -> bool:
        """A state of so many bytes, with none going but those that it can stand for."""
        gone = sum(one.size for one in self._states if self._stands_for(tokens, salt, one))
        return self.size - gone + size <= self.limit

    def discard(self, tokens: Sequence[int], salt: str = "") -> None:
        """The state of exactly these tokens, if it is kept."""
        for one in self._states[:]:
            if len(one.tokens) == len(tokens) and self._stands_for(tokens, salt, one):
                self._drop(one)

    def leaving(self, tokens: Sequence[int], size: int, salt: str) -> list[S] | None:
        """The states that would leave for one of so many bytes, besides those that it can stand for; None when it would
        take another salt's share."""
        if size > self.limit:
            return None
        kept = [one for one in self._states if not self._stands_for(tokens, salt, one)]
        over, gone = sum(one.size for one in kept) + size - self.limit, []
        while over > 0:
            one = first_to_leave(kept, _bytes, {salt: size})
            if one is None:
                return None
            kept.remove(one)
            gone.append(one)
            over -= one.size
        return gone

    def _make_room(self, tokens: Sequence[int], size: int, salt: str) -> bool:
        gone = self.leaving(tokens, size, salt)
        if gone is None:
            return False
        for old in [one for one in self._states if self._stands_for(tokens, salt, one)]:
            self._drop(old)
        for old in gone:
            self._leave(old)
        return True

    def shrink(self, limit: int) -> None:
        """Let states go until at most ``limit`` bytes are kept."""
        while self.size > limit:
            self._leave(first_to_leave(self._states, _bytes) or self._states[0])

    def _leave(self, state: S) -> None:
        """There is no room for it."""
        self._drop(state)

    def _drop(self, state: S) -> None:
        self._states.remove(state)
        self.size -= state.size

    def _stands_for(self, tokens: Sequence[int], salt: str, old: State) -> bool:
        beginning = salt == old.salt and shared(tokens, old.tokens) == len(old.tokens)
        return beginning and (not self.whole or len(tokens) == len(old.tokens))


class PrefixCache(Shelf[SavedState]):
    """In memory. What there is no room for goes on to ``disk``, and comes back from there. ``careful``: for so many
    prompts more, copies of what is in the context take the place of no other state."""

    def __init__(self, limit: int, *, whole: bool = False, disk: Disk | None = None) -> None:
        super().__init__(limit, whole=whole)
        self._disk = disk
        self._lost: deque[tuple[str, Sequence[int]]] = deque(maxlen=LOST)
        self.careful = 0
        self._patience = CAREFUL
        self._stopped = False

    def admits_copy(self, tokens: Sequence[int], size: int, salt: str = "") -> bool:
        """Whether the state of a conversation that is in the context should be kept here, too: in place of others, as
        long as those are not asked for again. What was let go is remembered, as in ARC (Megiddo and Modha, 2003)."""
        if self._stopped:
            return False
        if self.fits(tokens, size, salt):
            return True
        if self.careful or self._disk is not None:
            return False
        leaving = self.leaving(tokens, size, salt)
        if leaving is None:
            return False
        self._lost.extend((state.salt, state.tokens) for state in leaving)
        return True

    def stop_copies(self) -> None:
        """For a while: memory is needed elsewhere, and what is copied now would be taken back again."""
        self.careful, self._stopped = self._patience, True

    def note(self, tokens: Sequence[int], known: int, salt: str = "") -> None:
        """A prompt came, of which so many tokens are known."""
        if any(salt == of and shared(lost, tokens) >= known + WORTH_SAVING for of, lost in self._lost):
            self._lost.clear()
            self.careful = self._patience
            self._patience *= 2
        elif self.careful:
            self.careful -= 1
            self._stopped = self._stopped and self.careful > 0

    @property
    def largest(self) -> int:
        """Bytes of the largest state that can be kept."""
        return max(self.limit, self._disk.limit if self._disk is not None else 0)

    def best(self, tokens: Sequence[int], salt: str = "") -> tuple[State | None, int]:
        """As ``longest``, on disk as well."""
        here: tuple[State | None, int] = self.longest(tokens, salt)
        there = self._disk.longest(tokens, salt) if self._disk is not None else (None, 0)
        return there if there[1] > here[1] else here

    def fetch(self, state: State) -> Any | None:
        """The data of a state found, which was used just now; None when it is not to be had any more."""
        if isinstance(state, SavedState):
            self.touch(state)
            return state.data
        return self._disk.read(state) if self._disk is not None else None

    def put(self, state: SavedState) -> bool:
        """Keep a state, here or on disk; False when neither has room for it."""
        if self.add(state):
            return True
        return self._disk.write(state) if self._disk is not None else False

    def _leave(self, state: SavedState) -> None:
        super()._leave(state)
        if self._disk is not None:
            self._disk.write(state)


class Disk(Protocol):
    """States in files (engines/llama/states.py)."""

    limit: int

    def longest(self, tokens: Sequence[int], salt: str) -> tuple[State | None, int]: ...

    def read(self, state: Any) -> Any | None: ...

    def write(self, state: SavedState) -> bool: ...


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    return len(list(itertools.takewhile(bool, map(operator.eq, one, other))))


def first_to_leave(ones: Iterable[T], size: Callable[[T], int], more: Mapping[str, int] | None = None) -> T | None:
    """Of ``ones``, the least recently used first: the first of the salt that takes the most. ``more``: what a salt is
    about to take on top. None when that one would take the most, and has nothing here."""
    listed = list(ones)
    taken = Counter(more or {})
    for one in listed:
        taken[one.salt] += size(one)
    most = max(taken.values(), default=0)
    return next((one for one in listed if taken[one.salt] == most), None)


def _bytes(state: State) -> int:
    return state.size
