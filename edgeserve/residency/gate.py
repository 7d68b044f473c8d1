"""The Ensure gate of one engine: its leases, its bounded queue, its worker thread and its last use.

A request takes a place when it gets its lease. It is prepared beside the answers under way, waits for its turn, and
joins the loop on the gate's worker. The first request goes up the ladder; those behind it find the engine hot.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from concurrent.futures import Future

from edgeserve.engine import Engine, Preparing, Rung
from edgeserve.errors import Busy, Cancelled, EdgeserveError, EngineFailure, ShuttingDown, SlowReader
from edgeserve.memory.governor import Governor, Reservation
from edgeserve.messages import Request
from edgeserve.residency.ladder import Ladder
from edgeserve.residency.loop import Loop
from edgeserve.residency.queue import Queue
from edgeserve.residency.work import Done, Work
from edgeserve.residency.worker import Worker

log = logging.getLogger("edgeserve.gate")

REST_AFTER = 0.3
"""Seconds without a request before idle work: a program that asks on at once need not wait for it."""
PATIENCE = 10.0
"""Seconds that a paused answer keeps its place from others."""
STARVED = 0.01
"""Seconds between two looks at an answer that has no room beside those that are paused."""


class Gate(Ladder):
    """``queue_limit`` requests may wait beside those that run; the next is refused with Busy. Clock in seconds."""

    def __init__(
        self,
        engine: Engine,
        governor: Governor,
        *,
        queue_limit: int = 8,
        pinned: bool = False,
        clock: Callable[[], float] = time.monotonic,
        rest_after: float = REST_AFTER,
    ) -> None:
        super().__init__(engine, governor, pinned=pinned, clock=clock)
        self.keep_alive: float | None = None
        """What the latest request wants instead of the configured idle times, in seconds; infinite: to stay."""
        self.on_idle: Callable[[], None] = lambda: None
        """Called on any thread when a lease, or work, that held an engine with a ``keep_alive`` has ended."""
        self.on_serve: Callable[[Request], None] = lambda request: None
        """Called on the worker as a request begins, its engine hot; must neither wait nor raise."""
        self._queue_limit = queue_limit
        self._queue = Queue(self._state)
        self._closing = self._warming = self._stirred = False
        self._typical_seconds = 1.0
        self._loop = Loop(engine, lambda: self._governor.check(), clock)
        self._preparing = engine if isinstance(engine, Preparing) else None
        self._preparer = Worker(f"edgeserve-{self.job}-prepare")
        self._worker = Worker(f"edgeserve-{self.job}")
        if self._loop.batches:
            self._worker.when_idle(self._rest, rest_after)

    @property
    def slots(self) -> int:
        """Requests that run at a time."""
        return self._loop.slots

    @property
    def healthy(self) -> bool:
        """Do its threads live?"""
        return self._worker.alive and self._preparer.alive

    # Leases

    def acquire(self, keep_alive: float | None = None) -> None:
        """Count a lease, and note how long to stay after it.

        Raises Busy when the queue is full and ShuttingDown when the server drains.
        """
        with self._state:
            if self._closing:
                raise ShuttingDown("the server is shutting down and takes no new requests", retry_after=5)
            if self._leases >= self._queue_limit + self.slots and not self._cut_slowest():
                running = "one request runs" if self.slots == 1 else f"{self.slots} requests run"
                text = f"{self.job} is busy: {running} and all {self._queue_limit} places in its queue are taken"
                wait = min(60.0, max(1.0, round(self._typical_seconds * self._leases / self.slots)))
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
        self._queue.add(work)
        if self._preparing:
            self._preparer.put(self._prepare)
        else:
            self._arrived(work)

    def cancel(self, work: Work, reason: EdgeserveError | None = None) -> None:
        """End work: at once where its turn has not come, else within a token or segment. Any thread."""
        work.abort(reason or Cancelled("the request was cancelled"))
        if self._queue.withdraw(work):
            self._finish(work)
        self.wake()

    def wake(self) -> None:
        """Something changed for an answer: its reader has room again, or nobody wants it any more. Any thread."""
        with self._state:
            self._stirred = True
            self._state.notify_all()

    def drain(self, until: float) -> bool:
        """Take no new leases and wait for those out until the clock shows ``until``; True when none is left."""
        with self._state:
            self._closing = True
            return self._state.wait_for(lambda: not self._leases, max(0.0, until - self._clock()))

    def abort(self, reason: EdgeserveError) -> None:
        """End all work, running and waiting, with ``reason``."""
        for work in self._queue:
            self.cancel(work, reason)

    def stop(self) -> None:
        """End the threads and close the engine. Blocks until both are done."""
        self.abort(ShuttingDown("the server is shutting down"))
        self._preparer.stop()
        self._worker.stop()
        self._reset()

    # Without a request

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
            if self._closing or self._warming or self._queue or self.rung is Rung.HOT:
                return
            self._warming = True
        try:
            self._worker.put(self._warm_up)
        except Busy:
            self._warming = False

    def _warm_up(self) -> None:
        try:
            if error := self._attempt(self._heat_ahead):
                log.debug("%s was not heated ahead: %s", self.spec.name, error)
        finally:
            self._warming = False

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

    def _rest(self) -> None:
        """What makes the next answers cheaper. Errors close the engine, which the next request opens anew."""
        self._attempt(self._prepare_for_next)

    def _prepare_for_next(self) -> None:
        if self.rung is not Rung.HOT:
            return
        with self._governor.optional_memory() as free:
            for _ in self._loop.idle_work() if free else ():
                if self._queue.waits():
                    return

    # Beside the worker

    def _prepare(self) -> None:
        """Check the next request and get it ready, whatever the answers under way do."""
        work = self._queue.arriving()
        if work is None or self._preparing is None:
            return
        try:
            work.prepared = work.context.run(self._prepared, work.request, self._preparing)
            self._arrived(work)
        except Exception as error:
            if self._queue.withdraw(work):
                self._finish(work, error)

    def _prepared(self, request: Request, engine: Preparing) -> object | None:
        """None where the engine was closed meanwhile: then the answer prepares itself."""
        self._loop.check_kind(request)
        if self.rung is Rung.COLD:
            self.map()
        try:
            return engine.prepare(request)  # type: ignore[arg-type]  # of a kind that the loop takes
        except EngineFailure as error:
            log.debug("%s prepares the request when its turn comes: %s", self.spec.name, error.message)
            return None

    def _arrived(self, work: Work) -> None:
        if self._queue.arrive(work):
            self.wake()
            self._worker.put(self._drive)

    # The worker

    def _drive(self) -> None:
        """Until nothing waits and nothing runs: then the engine may be moved."""
        if not self._queue.waits():
            return  # taken in by an earlier round
        with self._engine_lock:
            try:
                while self._queue.waits() or self._loop.runs:
                    self._go_round()
            except Exception as error:  # of our own making: whoever is under way is told
                for ended in self._loop.end_all(error):
                    self._finish(ended.run.work, error, ended.run.started)
                self._close_failed()
                raise
        self._tell_idle()

    def _go_round(self) -> None:
        with self._state:
            self._stirred = False
        self._let_in()
        for ended in self._loop.turn():
            self._finish(ended.run.work, ended.error, ended.run.started)
        self._close_failed()
        if self._queue.waits():
            self._let_in()  # it may have come just now, or an answer have left its place: nobody is cut for it then
        if self._loop.stuck or self._loop.starved or (self._loop.batches and self._queue.waits()):
            self._await_readers()

    def _await_readers(self) -> None:
        """Where all answers are paused: until one has room, a request comes, or one that waits needs a place. A place
        may be needed, too, while others go on."""
        starved = self._loop.starved
        with self._state:
            cut = (starved or self._queue.waits()) and self._cut_slowest()
            if not cut and (starved or self._loop.stuck):
                seconds = STARVED if starved else PATIENCE / 10 if self._queue.waits() else None
                self._state.wait_for(lambda: self._stirred, seconds)

    def _cut_slowest(self) -> bool:
        """Under the state's lock: end the answer that waits longest for its reader, for others need its place."""
        run = self._loop.slowest(PATIENCE)
        if run is None or run.work.cancel.is_set():
            return False
        text = f"the answer waited {PATIENCE:g} s for its reader while other requests waited for its place"
        run.work.abort(SlowReader(f"{text}, and was cut: read faster, or ask for less at a time"))
        self._stirred = True
        self._state.notify_all()
        return True

    def _let_in(self) -> None:
        """As many as there is room for. The first may wait for memory and for the way up, the others do not."""
        while self._loop.free and (work := self._queue.take()):
            started, held = self._clock(), contextlib.ExitStack()
            try:
                if self._loop.runs and not work.cancel.is_set():
                    reservation = self._governor.reserve_at_once(self)
                    if reservation is None:
                        self._queue.put_back(work)
                        return
                    held.enter_context(reservation)
                    work.context.run(self._begin, work, started, held)
                else:
                    work.context.run(self._go_up_and_begin, work, started, held)
            except Exception as error:
                held.close()
                self._finish(work, error, started)

    def _go_up_and_begin(self, work: Work, started: float, held: contextlib.ExitStack) -> None:
        """A client that goes away meanwhile is noticed before each step that costs others something."""
        self._loop.check_kind(work.request)
        _go_on_if_wanted(work)
        reservation: Reservation = held.enter_context(self._reserve(work.cancel))
        _go_on_if_wanted(work)
        try:
            self._climb(Rung.HOT)
        except Exception:
            self._close_engine()
            raise
        self._governor.settle(reservation)
        self._begin(work, started, held)

    def _begin(self, work: Work, started: float, held: contextlib.ExitStack) -> None:
        self._loop.check_kind(work.request)
        _go_on_if_wanted(work)
        self.on_serve(work.request)
        self._loop.begin(work, started, held)

    def _close_failed(self) -> None:
        if self._loop.failed and not self._loop.runs:
            self._loop.failed = False
            self._close_engine()

    def _finish(self, work: Work, error: Exception | None = None, started: float | None = None) -> None:
        """Tell the end of work; ``started``: when it began to run."""
        told = self._told(error) if error is not None else None
        if told is None and work.cancel.is_set():
            told = work.reason or Cancelled("the request was cancelled")
        if not self._queue.end(work):
            return
        if started is not None:
            self._typical_seconds += 0.3 * (self._clock() - started - self._typical_seconds)
        try:
            work.emit(Done(told))
        except Exception:
            log.exception("nobody could be told that a request has ended")


def _go_on_if_wanted(work: Work) -> None:
    """Raises why not."""
    if work.cancel.is_set():
        raise work.reason or Cancelled("the request was cancelled")
