"""Saved states: the KV caches of evicted sequences, in memory, and on disk where configured.

A conversation continues from its longest saved prefix, as in llama.cpp's own server (``--cache-ram``). Saved states are
the first memory that the governor takes back.

Every state has a salt. A prompt finds states of its own scope only. No client evicts the states of another client that
takes no more than its share (docs/decisions/0008-prefix-cache-salts.md).
"""

from __future__ import annotations

import contextlib
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from edgeserve.dataclass import dataclass
from edgeserve.engines.llama.state_index import (
    State,
    StateIndex,
    choose_victims,
    next_victim,
    scope_of,
    shared,
    state_bytes,
)

if TYPE_CHECKING:
    from edgeserve.engines.llama.disk import Disk

S = TypeVar("S", bound=State)

WORTH_SAVING = 32
"""Tokens. To decode fewer again takes less time than to find, copy and restore a state."""
REMEMBERED = 16
"""Evicted states to remember."""
COPY_PAUSE, LONGEST_PAUSE = 64, 4096
"""Prompts to wait, after one asked for an evicted state, before copying may evict again. Each further such prompt
doubles the wait, up to the longest: prompts of one client must not end the copies of all for ever."""


@dataclass(frozen=True, slots=True, eq=False)
class SavedState:
    """The state of exactly ``tokens``; ``data`` as ``llama_state_seq_get_data`` wrote it."""

    tokens: tuple[int, ...]
    data: Any
    salt: str = ""

    @property
    def size(self) -> int:
        return len(self.data)


class StateCache(StateIndex[S]):
    """At most ``limit`` bytes of states. ``next_victim`` chooses the state to evict."""

    def __init__(self, limit: int, *, whole: bool = False) -> None:
        super().__init__(whole=whole)
        self.limit = limit

    @property
    def most(self) -> int:
        """Bytes that may be kept now."""
        return self.limit

    def add(self, state: S) -> bool:
        """Keep a state instead of the states that it covers, and evict others when there is no room.

        False when that would take another client's share.
        """
        if not self._make_room(state.tokens, state.size, state.salt):
            return False
        self._append(state)
        return True

    def fits(self, tokens: Sequence[int], size: int, salt: str = "") -> bool:
        """Whether a state of ``size`` bytes has room when only the states that it covers are dropped."""
        gone = sum(one.size for one in self._states if self._covers(tokens, salt, one))
        return self.size - gone + size <= self.most

    def discard(self, tokens: Sequence[int], salt: str = "") -> None:
        """Drop the state of exactly these tokens, if it is kept."""
        for one in self._states[:]:
            if len(one.tokens) == len(tokens) and self._covers(tokens, salt, one):
                self._drop(one)

    def victims(self, tokens: Sequence[int], size: int, salt: str) -> list[S] | None:
        """The states to evict for one of ``size`` bytes, besides those that it covers.

        None when the new state would take another client's share.
        """
        if size > self.most:
            return None
        kept = [one for one in self._states if not self._covers(tokens, salt, one)]
        return choose_victims(kept, sum(one.size for one in kept) + size - self.most, {salt: size})

    def _make_room(self, tokens: Sequence[int], size: int, salt: str) -> bool:
        gone = self.victims(tokens, size, salt)
        if gone is None:
            return False
        self._drop_covered(tokens, salt)
        for old in gone:
            self._evict(old)
        return True

    def shrink(self, limit: int) -> None:
        """Evict states until at most ``limit`` bytes are kept."""
        while self.size > limit:
            self._evict(next_victim(self._states, state_bytes) or self._states[0])

    def _evict(self, state: S) -> None:
        """Drop a state for lack of room."""
        self._drop(state)


class PrefixCache(StateCache[SavedState]):
    """Saved states in memory. States that it evicts go to ``disk``.

    ``room``: bytes that memory has for states, those that wait for the disk included. Any thread may set it.

    For the next ``copy_pause`` prompts, no copy of an idle slot evicts another state.
    """

    def __init__(self, limit: int, *, whole: bool = False, disk: Disk | None = None) -> None:
        super().__init__(limit, whole=whole)
        self._disk = disk
        self._evicted: deque[tuple[str, Sequence[int]]] = deque(maxlen=REMEMBERED)
        self.copy_pause = 0
        self._next_pause = COPY_PAUSE
        self._stopped = self._leaving = False
        self.room = sys.maxsize

    @property
    def most(self) -> int:
        return min(self.limit, self._free)

    @property
    def _free(self) -> int:
        """Bytes of ``room`` beside the states that wait for the disk."""
        unbound = self._leaving or self.room == sys.maxsize
        return sys.maxsize if unbound else max(0, self.room + self.size - self.held)

    def fit(self) -> None:
        """Evict the states that have no room any more."""
        if self.size > self.room:
            self.shrink(self.room)

    def admits_copy(self, tokens: Sequence[int], size: int, salt: str = "") -> bool:
        """Whether to keep a copy of an idle slot that is still in the context.

        A copy may evict other states as long as no prompt asks for those again. The cache remembers the evicted states,
        as ARC does (Megiddo and Modha, 2003).
        """
        if self._stopped:
            return False
        if self.fits(tokens, size, salt):
            return True
        if self.copy_pause or (self._disk is not None and not self._disk.limits_writes):
            return False  # on a disk that takes every state, each copy would write the one that it evicts
        leaving = self.victims(tokens, size, salt)
        if leaving is None:
            return False
        self._evicted.extend((state.salt, state.tokens) for state in leaving)
        return True

    def admits_write(self, size: int) -> bool:
        """Whether to write a copy of an idle slot that is larger than all memory for states."""
        wanted = self.limit < size <= self.largest and not self._stopped
        return wanted and self._disk is not None and self._disk.spares(size)

    @property
    def room_for_copies(self) -> int:
        """Bytes of copies at a time: in memory, and those that leave it for a disk with bounded writes."""
        return self.most + (self._disk.limit if self._disk is not None and self._disk.limits_writes else 0)

    def write_ahead(self) -> Iterator[None]:
        """Write the states that a copy as large as the largest state would evict, where the disk's writes are bounded.

        A copy before a prompt then does not wait for the disk. Yields after each state.
        """
        disk = self._disk
        if disk is None or not disk.limits_writes or self.copy_pause or not self._states:
            return
        largest, latest = max(self._states, key=state_bytes), self._states[-1]
        for state in self.victims((), largest.size, latest.salt) or ():
            if disk.longest(state.tokens, state.salt)[1] < len(state.tokens) and disk.write(state):
                yield

    def stop_copies(self) -> None:
        """Make no copies for a while: memory is short, and the governor would take them back."""
        self.copy_pause, self._stopped = self._next_pause, True

    def note_prompt(self, tokens: Sequence[int], known: int, salt: str = "") -> None:
        """Count a new prompt, of which ``known`` tokens are cached; adjusts ``copy_pause``."""
        own = (lost for of, lost in self._evicted if scope_of(of) == scope_of(salt))
        if any(shared(lost, tokens) >= known + WORTH_SAVING for lost in own):
            self._evicted.clear()
            self.copy_pause = self._next_pause
            self._next_pause = min(2 * self._next_pause, LONGEST_PAUSE)
        elif self.copy_pause:
            self.copy_pause -= 1
            self._stopped = self._stopped and self.copy_pause > 0

    @property
    def largest(self) -> int:
        """Bytes of the largest state that can be kept."""
        return min(self._free, max(self.limit, self._disk.limit if self._disk is not None else 0))

    @property
    def disk(self) -> Disk | None:
        return self._disk

    @property
    def held(self) -> int:
        """Bytes of states in memory, those that wait for the disk too. Any thread may ask."""
        waiting = self._disk.waiting if self._disk is not None else ()
        return sum(one.size for one in {*tuple(self._states), *waiting})

    def give_back(self, amount: int) -> None:
        """Free so many bytes of ``held``. Blocks for the disk until the states are written."""
        kept = max(0, self.held - amount)
        with self.settled():
            self.shrink(kept)

    @contextlib.contextmanager
    def settled(self) -> Iterator[None]:
        """Within it, no state waits for the disk: each is written when it leaves memory.

        ``room`` is no bound within: the context of these states goes, or they go themselves.
        """
        self._leaving = True
        try:
            with self._disk.settled() if self._disk is not None else contextlib.nullcontext():
                yield
        finally:
            self._leaving = False

    def forget(self, tokens: Sequence[int], salt: str) -> None:
        """Drop the states that ``tokens`` cover, in memory and on disk."""
        self._drop_covered(tokens, salt)
        if self._disk is not None:
            self._disk.forget(tokens, salt)

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

    def read_ahead(self, state: State) -> None:
        """Have the system read a state on disk, for the next ``fetch``. Blocks for the disk. Any thread."""
        if self._disk is not None:
            self._disk.read_ahead(state)

    def use(self, state: State) -> bool:
        """Mark a state that ``best`` found as used. False when it is gone."""
        if isinstance(state, SavedState):
            return self.touch(state)
        return self._disk is not None and self._disk.touch(state)

    def refuse(self, state: State) -> None:
        """Drop a state that ``best`` found, and that llama.cpp does not take."""
        if isinstance(state, SavedState):
            self.drop(state)
        if self._disk is not None:
            self._disk.drop(state)

    def put(self, state: SavedState) -> bool:
        """Keep a state in memory, else on disk. False when neither has room for it."""
        if self.add(state):
            return True
        return self._disk.write(state) if self._disk is not None else False

    def _evict(self, state: SavedState) -> None:
        super()._evict(state)
        if self._disk is not None:
            self._disk.write(state)
