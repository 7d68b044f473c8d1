"""The Ensure gate of one engine: its worker thread, its leases, its bounded queue and its last use.

All work of an engine runs on the gate's one worker thread, in the order it came, but for what an engine lends out while
it answers. Whoever comes first goes up the
ladder; those behind find the engine hot.
"""

from __future__ import annotations

import contextlib
import functools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

from edgeserve.engine import Engine, Limited, Rung
from edgeserve.errors import Busy, Cancelled, EdgeserveError, EngineFailure, NotSupported, ShuttingDown
from edgeserve.ladder import Ladder
from edgeserve.memory.governor import Governor, Reservation
from edgeserve.messages import Request
from edgeserve.work import METHODS, Done, Work
from edgeserve.worker import Worker

log = logging.getLogger("edgeserve.gate")

CHECK_EVERY = 16
"""Events between two looks at the memory pressure (reference/eviction-versus-limits.md: every 16 tokens)."""


class Gate(Ladder):
    """``queue_limit`` requests may wait while one runs; the next is refused with Busy. Clock in seconds."""

    def __init__(
        self,
        engine: Engine,
        governor: Governor,
        *,
        queue_limit: int = 8,
        pinned: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(engine, pinned=pinned, clock=clock)
        self.keep_alive: float | None = None
        """What the latest request wants instead of the configured idle times, in seconds; infinite: to stay."""
        self.on_idle: Callable[[], None] = lambda: None
        """Called on any thread when a lease, or work, that held an engine with a ``keep_alive`` has ended."""
        self.on_serve: Callable[[Request], None] = lambda request: None
        """Called on the worker as a request begins, its engine hot; must neither wait nor raise."""
        self._governor = governor
        self._queue_limit = queue_limit
        self._closing = False
        self._open_work: list[Work] = []
        self._warming = False
        self._worker = Worker(f"edgeserve-{self.job}")
        self._typical_seconds = 1.0

    @property
    def slots(self) -> int:
        """Requests that run at a time."""
        return 1

    # Leases

    def acquire(self, keep_alive: float | None = None) -> None:
        """Count a lease, and note how long to stay after it.

        Raises Busy when the queue is full and ShuttingDown when the server drains.
        """
        with self._state:
            if self._closing:
                raise ShuttingDown("the server is shutting down and takes no new requests", retry_after=5)
            # Work is counted, not leases: a client that reads its finished answer slowly must not keep others out.
            if sum(not work.cancel.is_set() for work in self._open_work) >= self._queue_limit + self.slots:
                running = "one request runs" if self.slots == 1 else f"{self.slots} requests run"
                text = f"{self.job} is busy: {running} and all {self._queue_limit} places in its queue are taken"
                wait = min(60.0, max(1.0, round(self._typical_seconds * len(self._open_work) / self.slots)))
                raise Busy(f"{text}; try again later or raise queue_limit in models.toml", retry_after=wait)
            self._leases += 1
            self.keep_alive = keep_alive

    def release(self) -> None:
        """Give a lease back and stamp the last use: this is when the idle time starts."""
        with self._state:
            self._leases -= 1
            self.last_used = self._clock()
            self._state.notify_all()
        self._tell_idle()

    def _tell_idle(self) -> None:
        if self.keep_alive is not None:
            self.on_idle()

    def submit(self, work: Work) -> None:
        """Queue work of a lease holder. Its ``emit`` gets the events and always one ``Done``."""
        with self._state:
            self._open_work.append(work)
        self._worker.put(functools.partial(self._complete, work))

    def preload(self) -> None:
        """Bring the engine up to hot on the calling thread. Raises DoesNotFit or EngineFailure."""
        with self._engine_lock, self._hot(self._reserve()):
            self._used_now()

    def preload_in_turn(self) -> Future[None]:
        """The same on the worker, after the work that is there already; done at once when the engine is hot."""
        if self.rung is not Rung.HOT:
            return self._worker.call(self.preload)
        self._used_now()
        done: Future[None] = Future()
        done.set_result(None)
        return done

    def warm_up(self) -> None:
        """Bring an idle engine up to hot in the background, if it fits with nothing else moved. Never waits."""
        with self._state:
            if self._closing or self._warming or self._open_work or self.rung is Rung.HOT:
                return
            self._warming = True
        self._worker.put(self._warm_up)

    def _reserve(self) -> Reservation:
        with self._asking():
            return self._governor.reserve(self)

    @contextlib.contextmanager
    def _asking(self) -> Iterator[None]:
        """While this thread asks for memory, the engine may be told to do with less."""
        self._reserving = threading.get_ident()
        try:
            yield
        finally:
            self._reserving = None

    def _climb(self, rung: Rung) -> None:
        """A runtime that can be told how much to take is told before each way up: memory may have changed."""
        if self.rung < rung and isinstance(self.engine, Limited) and (limits := self._governor.limits()):
            self.engine.limit(limits.memory, limits.cache, limits.wired)
        super()._climb(rung)

    @contextlib.contextmanager
    def _hot(self, reservation: Reservation) -> Iterator[None]:
        """Go up the ladder on reserved memory; give the request's share back at the end."""
        try:
            self._climb(Rung.HOT)
            self._governor.settle(reservation)
            yield
        finally:
            self._governor.release(reservation)

    def drain(self, until: float) -> bool:
        """Take no new leases and wait for those out until the clock shows ``until``; True when none is left."""
        with self._state:
            self._closing = True
            return self._state.wait_for(lambda: not self._leases, max(0.0, until - self._clock()))

    def abort(self, reason: EdgeserveError) -> None:
        """End all work, running and waiting, with ``reason``."""
        with self._state:
            work = list(self._open_work)
        for one in work:
            one.abort(reason)

    def stop(self) -> None:
        """End the worker and close the engine. Blocks until both are done."""
        self.abort(ShuttingDown("the server is shutting down"))
        self._worker.stop()
        self._reset()

    # The worker

    def _complete(self, work: Work) -> None:
        started, error = self._clock(), None
        if not work.cancel.is_set():
            error = work.context.run(self._attempt, functools.partial(self._serve, work))
        self._finish(work, error, started)

    def _finish(self, work: Work, error: EdgeserveError | None, started: float) -> None:
        """Tell the end of work that ran since ``started``."""
        if error is None and work.cancel.is_set():
            error = work.reason or Cancelled("the request was cancelled")
        with self._state:
            self._open_work.remove(work)
            self._typical_seconds += 0.3 * (self._clock() - started - self._typical_seconds)
        work.emit(Done(error))
        self._tell_idle()

    def _warm_up(self) -> None:
        if error := self._attempt(self._heat_ahead):
            log.debug("%s was not heated ahead: %s", self.spec.name, error)
        self._warming = False

    def _attempt(self, action: Callable[[], None]) -> EdgeserveError | None:
        """Use the engine; returns what went wrong."""
        try:
            with self._engine_lock:
                action()
        except Exception as error:
            return self._told(error)
        return None

    def _told(self, error: Exception) -> EdgeserveError:
        """What went wrong in our own words; an engine that failed is closed, and opened anew by the next request."""
        if isinstance(error, EdgeserveError) and not isinstance(error, EngineFailure):
            return error
        log.error("%s failed", self.spec.name, exc_info=error)
        self._reset()
        if isinstance(error, EngineFailure):
            return error
        return EngineFailure(f"{self.spec.name} failed: {error}; it is reopened by the next request")

    def _heat_ahead(self) -> None:
        with self._asking():
            reservation = None if self._closing else self._governor.reserve_if_free(self)
        if reservation:
            with self._hot(reservation):
                self._used_now()
        else:
            log.debug("%s is not heated ahead: it does not fit as things stand", self.spec.name)

    def _used_now(self) -> None:
        with self._state:
            self.last_used = self._clock()
            if not self._leases:
                self.keep_alive = None

    def _serve(self, work: Work) -> None:
        method = METHODS[type(work.request)]
        if not hasattr(self.engine, method):
            raise NotSupported(f"{self.spec.name} serves {self.job}; it cannot {method}")
        with self._hot(self._reserve()):
            self.on_serve(work.request)
            # Closed here, or a run that the check stops would live on in its error, and free what it holds too late.
            with contextlib.closing(getattr(self.engine, method)(work.request, work.cancel)) as events:
                for count, event in enumerate(events, start=1):
                    work.emit(event)
                    if count % CHECK_EVERY == 0:
                        self._governor.check()
