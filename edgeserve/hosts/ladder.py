"""The steps of one engine up and down its rungs, and the lock that guards it."""

from __future__ import annotations

import contextlib
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager

from edgeserve.engine import Engine, Rung
from edgeserve.engine_abilities import Limited
from edgeserve.memory.metal import MetalLimits

log = logging.getLogger("edgeserve.gate")

LOOK_AGAIN = 0.1
"""Seconds between two checks whether another thread has opened the engine."""


class Ladder:
    """``climb``, ``step_down`` and ``close`` require ``hold``. ``clock`` in seconds.

    The ladder calls ``limits`` before each way up of an engine that is ``limited``, because memory may have changed
    since the last.
    """

    def __init__(
        self,
        engine: Engine,
        limited: Limited | None,
        limits: Callable[[], MetalLimits | None],
        clock: Callable[[], float],
    ) -> None:
        self._engine = engine
        self._limited = limited
        self._limits = limits
        self._clock = clock
        self._lock = threading.Lock()
        self.climbing = False
        """True during a way up. Any thread."""

    @property
    def rung(self) -> Rung:
        return self._engine.rung

    @contextlib.contextmanager
    def hold(self, seconds: float) -> Iterator[bool]:
        """Take the lock within so many seconds, -1 for no limit. Yields False when that failed."""
        held = self._lock.acquire(timeout=seconds)
        try:
            yield held
        finally:
            if held:
                self._lock.release()

    def map(self, opening: Callable[[], AbstractContextManager[None]] = contextlib.nullcontext) -> None:
        """Cold → warm on the calling thread, or on the thread that holds the lock, if that thread is first.

        A worker holds the lock as long as it has work, and its work may wait for readers, or for memory. ``opening``
        brackets the step alone.
        """
        while self.rung is Rung.COLD:
            with self.hold(LOOK_AGAIN) as held:
                if held and self.rung is Rung.COLD:
                    with opening():
                        self.climb(Rung.WARM)

    def climb(self, to: Rung) -> None:
        """Up to ``to``. Raises what the engine raises."""
        self.climbing = True
        try:
            self._climb(to)
        finally:
            self.climbing = False

    def _climb(self, to: Rung) -> None:
        started, before = self._clock(), self.rung
        if before < to and self._limited is not None and (limits := self._limits()):
            self._limited.limit(limits.memory, limits.cache, limits.wired)
        if self.rung is Rung.COLD:
            self._engine.open()
        if self.rung < to:
            self._engine.heat()
        if self.rung is not before:
            seconds = self._clock() - started
            log.info("%s went from %s to %s in %.2f s", self._engine.spec.name, before.name, self.rung.name, seconds)

    def step_down(self, to: Rung) -> None:
        """Step down to ``to``; nothing when the engine is there or below. Raises what the engine raises."""
        if self.rung <= to:
            return
        if to is Rung.WARM:
            self._engine.park()
        if to is Rung.COLD or self.rung is Rung.COLD:  # without a warm rung it has closed: its process goes, too
            self._engine.close()

    def close(self) -> None:
        """Any rung → cold. The next way up opens the engine anew."""
        try:
            self._engine.close()
        except Exception:
            log.exception("%s could not be closed", self._engine.spec.name)
