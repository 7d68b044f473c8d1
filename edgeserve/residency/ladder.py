"""One engine on its ladder: the lock that guards it, the steps it takes, and what the governor sees of it.

Steps up run on the gate's worker. Steps down run on the thread that asks for them, under the same lock, and only when
nobody holds a lease: they never wait, so two ladders can never wait for each other.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping

from edgeserve.engine import Cancel, Contextual, Engine, Footprint, Job, Limited, ModelSpec, Rung, Thrifty
from edgeserve.errors import EdgeserveError, EngineFailure
from edgeserve.memory.entry import Move, cached, taken
from edgeserve.memory.governor import Governor, Reservation

log = logging.getLogger("edgeserve.gate")

LOOK_AGAIN = 0.1
"""Seconds between two looks whether another thread has opened an engine."""


class Ladder:
    """``pinned``: never moved down by the monitor or for another engine. Clock in seconds."""

    def __init__(
        self,
        engine: Engine,
        governor: Governor,
        *,
        pinned: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.engine = engine
        self._governor = governor
        self.pinned = pinned
        self.last_used = clock()
        self._clock = clock
        self._thrifty = engine if isinstance(engine, Thrifty) else None
        self._engine_lock = threading.Lock()
        self._state = threading.Condition()
        self._leases = 0
        self._reserving: int | None = None
        """The thread that reserves memory for this engine now, and holds its lock."""

    @property
    def job(self) -> Job:
        return self.engine.spec.job

    @property
    def spec(self) -> ModelSpec:
        return self.engine.spec

    @property
    def rung(self) -> Rung:
        return self.engine.rung

    @property
    def leases(self) -> int:
        return self._leases

    @property
    def context_tokens(self) -> int | None:
        """Of the context that the engine has now; None where there is none."""
        return self.engine.context_tokens if isinstance(self.engine, Contextual) else None

    def estimate(self) -> Footprint:
        return self.engine.estimate()

    def footprint(self) -> Footprint:
        return self.engine.footprint()

    def step_down(self, to: Rung) -> Move | None:
        """Move down to ``to`` on the calling thread, and tell from where to where.

        None at once when the engine is leased, at work, or there already; never waits.
        """
        if not self._take_idle():
            return None
        try:
            before, held = self.rung, taken(self)
            if before <= to:
                return None
            if to is Rung.WARM:
                self.engine.park()
            else:
                self.engine.close()
            return Move(before, self.rung, held, taken(self), cached(self))
        finally:
            self._engine_lock.release()

    def savings(self) -> Mapping[str, int]:
        """Bytes that the engine could do without, by kind; nothing for one that has no such thing. Any thread."""
        return self._thrifty.savings() if self._thrifty else {}

    def shed(self, kind: str, amount: int) -> bool:
        """Let the engine do with ``amount`` bytes less, on the calling thread. False at once when it is leased or at
        work, or cannot."""
        return self._adjust(lambda engine: engine.shed(kind, amount))

    def restore(self) -> bool:
        """Let the engine go up with all that is configured; False as for ``shed``."""
        return self._adjust(lambda engine: engine.restore())

    def _adjust(self, change: Callable[[Thrifty], None]) -> bool:
        """A request that makes room for itself may find it in its own engine, whose lock its thread holds already."""
        if self._thrifty is None:
            return False
        ours = self._reserving == threading.get_ident()
        if not ours and not self._take_idle():
            return False
        try:
            change(self._thrifty)
        finally:
            if not ours:
                self._engine_lock.release()
        return True

    def _take_idle(self) -> bool:
        """Take the engine's lock without waiting; False when it is leased or at work."""
        with self._state:
            return not self._leases and self._engine_lock.acquire(blocking=False)

    def map(self) -> None:
        """Cold → warm on the calling thread: nothing stays resident, so nothing is reserved. Raises EngineFailure.

        Where another thread opens the engine meanwhile that is enough: a worker keeps the lock as long as it has work,
        and an answer may wait for its reader.
        """
        while self.rung is Rung.COLD:
            if self._engine_lock.acquire(timeout=LOOK_AGAIN):
                try:
                    self._climb(Rung.WARM)
                finally:
                    self._engine_lock.release()

    def _reserve(self, cancel: Cancel | None = None) -> Reservation:
        with self._asking():
            return self._governor.reserve(self, cancel)

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """While this thread asks for memory, the engine may be told to do with less."""
        self._reserving = threading.get_ident()
        try:
            yield
        finally:
            self._reserving = None

    @contextlib.contextmanager
    def _hot(self, reservation: Reservation) -> Iterator[None]:
        """Go up the ladder on reserved memory; give the request's share back at the end."""
        with reservation:
            self._climb(Rung.HOT)
            self._governor.settle(reservation)
            yield

    def _climb(self, rung: Rung) -> None:
        """A runtime that can be told how much to take is told before each way up: memory may have changed."""
        started, before = self._clock(), self.rung
        if before < rung and isinstance(self.engine, Limited) and (limits := self._governor.limits()):
            self.engine.limit(limits.memory, limits.cache, limits.wired)
        if self.rung is Rung.COLD:
            self.engine.open()
        if self.rung < rung:
            self.engine.heat()
        if self.rung is not before:
            seconds = self._clock() - started
            log.info("%s went from %s to %s in %.2f s", self.spec.name, before.name, self.rung.name, seconds)

    def _attempt(self, action: Callable[[], None]) -> EdgeserveError | None:
        """Use the engine without a request; returns what went wrong. A failed engine is closed."""
        with self._engine_lock:
            try:
                action()
            except Exception as error:
                told = self._told(error)
                if isinstance(told, EngineFailure):
                    self._close_engine()
                return told
        return None

    def _told(self, error: Exception) -> EdgeserveError:
        """What went wrong in our own words."""
        if isinstance(error, EdgeserveError) and not isinstance(error, EngineFailure):
            return error
        log.error("%s failed", self.spec.name, exc_info=error)
        return (
            error
            if isinstance(error, EngineFailure)
            else EngineFailure(f"{self.spec.name} failed on this request: {error}")
        )

    def _reset(self) -> None:
        """Close the engine whatever state it is in; the next request opens it anew."""
        with self._engine_lock:
            self._close_engine()

    def _close_engine(self) -> None:
        """The same on a thread that holds the engine's lock."""
        try:
            self.engine.close()
        except Exception:
            log.exception("%s could not be closed", self.spec.name)
