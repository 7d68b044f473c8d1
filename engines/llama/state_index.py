"""Saved states by their tokens: the longest prefix of a prompt, and the choice of the states to evict."""

from __future__ import annotations

import itertools
import operator
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Generic, Protocol, TypeVar


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


class Sized(Salted, Protocol):
    @property
    def size(self) -> int: ...


S = TypeVar("S", bound=State)
T = TypeVar("T", bound=Salted)
Z = TypeVar("Z", bound=Sized)


class StateIndex(Generic[S]):
    """Saved states, found by the longest prefix that they share with a prompt.

    ``whole``: a state serves only prompts that begin with all of its tokens. The model cannot remove tokens from a
    state when it has a sliding window or recurrent layers.

    One thread at a time; any thread may read ``size``, the bytes of all states.
    """

    def __init__(self, *, whole: bool = False) -> None:
        self.whole = whole
        self.size = 0
        self._states: list[S] = []
        """Least recently used first."""

    def __len__(self) -> int:
        return len(self._states)

    def longest(self, tokens: Sequence[int], salt: str = "") -> tuple[S | None, int]:
        """The state of this scope that shares the longest prefix with ``tokens``, and the length of that prefix."""
        found, longest, scope = None, 0, scope_of(salt)
        for state in self._states:
            length = shared(state.tokens, tokens) if scope_of(state.salt) == scope else 0
            if length > longest and (not self.whole or length == len(state.tokens)):
                found, longest = state, length
        return found, longest

    def touch(self, state: S) -> bool:
        """Mark the state as the most recently used. False when it is gone."""
        if state not in self._states:
            return False
        self._states.remove(state)
        self._states.append(state)
        return True

    def drop(self, state: S) -> None:
        """Forget a state, if it is still there."""
        if state in self._states:
            self._drop(state)

    def _append(self, state: S) -> None:
        self._states.append(state)
        self.size += state.size

    def _drop(self, state: S) -> None:
        self._states.remove(state)
        self.size -= state.size

    def _drop_covered(self, tokens: Sequence[int], salt: str) -> None:
        for old in [one for one in self._states if self._covers(tokens, salt, one)]:
            self._drop(old)

    def _covers(self, tokens: Sequence[int], salt: str, old: State) -> bool:
        """Whether a state of ``tokens`` serves every prompt that ``old`` serves."""
        beginning = scope_of(salt) == scope_of(old.salt) and shared(tokens, old.tokens) == len(old.tokens)
        return beginning and (not self.whole or len(tokens) == len(old.tokens))


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Length of the longest common prefix."""
    return len(list(itertools.takewhile(bool, map(operator.eq, one, other))))


def next_victim(
    ones: Iterable[T],
    size: Callable[[T], int],
    more: Mapping[str, int] | None = None,
    fixed: Mapping[str, int] | None = None,
) -> T | None:
    """The first of ``ones`` of the client that takes the most, and of its salt that takes the most.

    ``ones`` begin with the least recently used. ``more``: size that a salt takes besides. None when that salt has none
    of ``ones``. ``fixed``: size that a client takes besides and cannot give up. It counts for clients in ``ones`` or
    ``more`` alone: a client that has nothing to give up keeps nobody else from making room.
    """
    listed = list(ones)
    taken = Counter(more or {})
    for one in listed:
        taken[one.salt] += size(one)
    clients, largest = Counter[str](), Counter[str]()
    for salt, held in taken.items():
        client = client_of(salt)
        clients[client] += held
        largest[client] = max(largest[client], held)
    for client in clients:
        clients[client] += (fixed or {}).get(client, 0)
    most = max(clients.values(), default=0)
    greedy = {client for client, held in clients.items() if held == most}
    found = (one for one in listed if (client := client_of(one.salt)) in greedy and taken[one.salt] == largest[client])
    return next(found, None)


def client_of(salt: str) -> str:
    """The client whose share a salt takes: the part before the first slash. A client may have any number of salts."""
    return salt.partition("/")[0]


def scope_of(salt: str) -> str:
    """The part of a salt behind the first slash: prompts of one scope share, also those of several clients.

    A salt without a slash is its own scope.
    """
    client, slash, scope = salt.partition("/")
    return scope if slash else client


def choose_victims(
    ones: Iterable[Z], over: int, more: Mapping[str, int] | None = None, fixed: Mapping[str, int] | None = None
) -> list[Z] | None:
    """Victims among ``ones``, so that ``over`` bytes go, as ``next_victim`` chooses them one by one.

    None when ``next_victim`` finds none among those left.
    """
    kept, gone = list(ones), []
    while over > 0:
        one = next_victim(kept, state_bytes, more, fixed)
        if one is None:
            return None
        kept.remove(one)
        gone.append(one)
        over -= one.size
    return gone


def state_bytes(state: Sized) -> int:
    return state.size
