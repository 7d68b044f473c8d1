"""States on their way to the disk: a thread writes them, so that no answer waits for the disk."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Iterator, Sequence
from typing import Any

from edgeserve.engines.llama.background import Threads, writing
from edgeserve.engines.llama.cache import SavedState
from edgeserve.engines.llama.state_index import State, StateIndex, choose_victims, client_of, state_bytes
from edgeserve.engines.llama.states import StateFiles

log = logging.getLogger("edgeserve.llama")

MOST_WAITING = 128 << 20
"""Bytes that may wait for the disk, beside the state that is being written. A larger one is written alone."""


class StateWriter(StateIndex[SavedState]):
    """The states in ``files``, and before them those that still wait to be written.

    At most ``most`` bytes wait beside the state that is being written, whose size its own client alone answers for.

    A state that waits is found, and read from memory. A crash loses it, as it loses the states in memory. One thread at
    a time, as for the files; any thread may call ``keep`` and ``kept``, and read ``waiting``.
    """

    def __init__(self, files: StateFiles, most: int = MOST_WAITING, threads: Threads = writing) -> None:
        super().__init__(whole=files.whole)
        self._files = files
        self._most = most
        self._threads = threads
        self._lock, self._writing = threading.RLock(), threading.Lock()
        """Guards the queue; held by the thread that writes a state."""
        self._settled = False

    @property
    def limit(self) -> int:
        return self._files.limit

    @property
    def limits_writes(self) -> bool:
        return self._files.limits_writes

    def spares(self, size: int) -> bool:
        return self._files.spares(size)

    @property
    def waiting(self) -> Sequence[SavedState]:
        """The states that still wait to be written."""
        return tuple(self._states)

    def longest(self, tokens: Sequence[int], salt: str = "") -> tuple[State | None, int]:  # type: ignore[override]
        with self._lock:
            here = super().longest(tokens, salt)
        there = self._files.longest(tokens, salt)  # in this order: a state that leaves the queue is there already
        return there if there[1] >= here[1] else here

    def read(self, state: Any) -> Any | None:
        return state.data if isinstance(state, SavedState) else self._files.read(state)

    def read_ahead(self, state: Any) -> None:
        self._files.read_ahead(state)

    def touch(self, state: Any) -> bool:
        """Mark a state in a file as used. False when it is gone, or not in a file yet."""
        return not isinstance(state, SavedState) and self._files.touch(state)

    def write(self, state: SavedState) -> bool:
        """Have a state written. Where too many wait, the client with the most loses its oldest ones.

        False when the state itself is lost.
        """
        if self._settled:
            return self._files.write(state)
        with self._lock:
            if any(self._covers(one.tokens, one.salt, state) for one in self._states):
                return True
            if not self._make_room(state):
                return False
            self._append(state)
        try:
            self._threads().submit(self._write_next)
        except RuntimeError as error:
            log.debug("no thread writes states (%s); an answer waits for the disk", error)
            self._write_next()
        return True

    @contextlib.contextmanager
    def settled(self) -> Iterator[None]:
        """Write all that waits. Within, a state is written when ``write`` returns, and no queue takes memory."""
        self._write_next()  # first: a state that was forgotten meanwhile may still be on its way
        while self._states:
            self._write_next()
        self._settled = True
        try:
            yield
        finally:
            self._settled = False

    def drop(self, state: Any) -> None:
        with self._lock:
            waits = state in self._states
            if waits:
                self._drop(state)
        if not waits:
            self._files.drop(state)

    def forget(self, tokens: Sequence[int], salt: str) -> None:
        """Drop the states that ``tokens`` cover. One that is being written is removed as soon as it is."""
        with self._lock:
            self._drop_covered(tokens, salt)
        self._files.forget(tokens, salt)

    def keep(self, name: str, state: SavedState) -> int:
        return self._files.keep(name, state)

    def kept(self, name: str, salt: str) -> tuple[SavedState, int]:
        return self._files.kept(name, salt)

    def _make_room(self, state: SavedState) -> bool:
        """Drop states that wait, never the first, until another fits. False when it takes another client's share."""
        writing, waiting = self._states[:1], self._states[1:]
        own = sum(one.size for one in writing if client_of(one.salt) == client_of(state.salt))
        over = sum(map(state_bytes, waiting)) + state.size - self._most if writing else 0
        gone = choose_victims(waiting, over, {state.salt: own + state.size})
        for one in gone or ():
            self._drop(one)
        if over > 0:
            lost = [state] if gone is None else gone
            text = "the disk is slow: states of %d MB are not kept, %d MB wait to be written"
            log.warning(text, sum(map(state_bytes, lost)) >> 20, self.size >> 20)
        return gone is not None

    def _write_next(self) -> None:
        """Write the first state that waits, if there is one."""
        with self._writing:
            state = next(iter(self.waiting), None)
            if state is None:
                return
            try:
                self._files.write(state)
            except Exception:  # nobody asks the thread how it went
                log.exception("a conversation's state of %d MB cannot be kept on disk", state.size >> 20)
            with self._lock:
                wanted = state in self._states
                if wanted:
                    self._drop(state)
            if not wanted:
                self._files.forget(state.tokens, state.salt)
