"""The ways up of an engine without a request: mapped at the start, loaded by hand, heated ahead of need."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future

from edgeserve.engine import Cancel, ModelSpec, Rung
from edgeserve.errors import Busy, Cancelled, ShuttingDown, Unreachable
from edgeserve.memory.terms import Terms
from edgeserve.residency.failure import explain
from edgeserve.residency.host import Host
from edgeserve.residency.turns import Asked, Turns
from edgeserve.residency.way_up import WayUp

log = logging.getLogger("edgeserve.gate")


class Loads:
    """Any thread. ``state``: the gate's lock. ``closed``: whether the gate is; ``used`` is called after a load."""

    def __init__(
        self,
        host: Host,
        way_up: WayUp,
        turns: Turns,
        state: threading.Condition,
        closed: Callable[[], bool],
        used: Callable[[], None],
    ) -> None:
        self._host = host
        self._way_up = way_up
        self._turns = turns
        self._state = state
        self._closed = closed
        self._used = used
        self._loading: Future[None] | None = None
        self.warming = False
        """True while ``warm_up`` is under way."""

    @property
    def _spec(self) -> ModelSpec:
        return self._host.spec

    def map(self) -> None:
        """Cold → warm on the calling thread: nothing stays resident, so nothing is reserved.

        Raises EngineFailure, and ShuttingDown for a closed gate.
        """
        self._check_open()
        self._host.map()
        if self._closed():  # the host may have stopped meanwhile
            with self._host.hold():
                self._host.close()

    def _check_open(self) -> None:
        if self._closed():
            text = f"{self._spec.id} is being closed, and is not loaded any more; try again"
            raise ShuttingDown(text, retry_after=5)

    def now(self, cancel: Cancel | None = None) -> None:
        """Up to hot on the calling thread. Raises DoesNotFit or EngineFailure."""
        with self._host.hold(), self._way_up.reserve(Terms(cancel)) as reservation:
            self._way_up.climb(reservation)
            self._used()

    def in_turn(self) -> Future[None]:
        """Up to hot on the host's thread, after the work there; done at once when the engine is hot.

        Calls that come meanwhile share one load. It never waits for memory in front of a request: Busy then. Raises
        ShuttingDown for a closed gate, also when the gate closes during the wait.
        """
        if self._host.rung is not Rung.HOT:
            with self._state:
                self._check_open()
                if self._loading is None or self._loading.done():
                    self._loading = self._host.call(self._unless_asked)
                return self._loading
        self._used()
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def _unless_asked(self) -> None:
        try:
            self.now(Asked(self._turns, self._closed))
        except Cancelled:
            self._check_open()
            text = f"{self._spec.id} waited for memory when a request came, which loads it now"
            raise Busy(f"{text}: ask again to know whether it is loaded", retry_after=5) from None

    def warm_up(self) -> None:
        """Bring an idle engine up to hot in the background, if it fits with nothing else moved. Never waits."""
        with self._state:
            if self._closed() or self.warming or self._turns.work or self._host.rung is Rung.HOT:
                return
            self.warming = True
        try:
            self._host.call(self._warm_up)
        except Busy:
            self.warming = False

    def _warm_up(self) -> None:
        try:
            with self._host.hold():
                self._climb_if_free()
        except Unreachable as error:  # the request says so, if it finds the same
            log.debug("%s was not heated ahead: %s", self._spec.name, error.message)
        except Exception as error:
            log.debug("%s was not heated ahead: %s", self._spec.name, explain(self._spec.name, error))
        finally:
            self.warming = False

    def _climb_if_free(self) -> None:
        reservation = None if self._closed() else self._way_up.reserve_if_free()
        if reservation is None:
            log.debug("%s is not heated ahead: it does not fit as things stand", self._spec.name)
            return
        with reservation:
            self._way_up.climb(reservation)
            self._used()
