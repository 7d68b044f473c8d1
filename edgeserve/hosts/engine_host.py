"""The part that all hosts share: an engine behind its lock, and the threads that drive its loop."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from contextlib import AbstractContextManager

from edgeserve.engine import Engine, Rung
from edgeserve.engine_abilities import Preparing
from edgeserve.errors import Busy, EngineFailure
from edgeserve.hosts.abilities import Abilities
from edgeserve.hosts.facts import Facts
from edgeserve.hosts.ladder import Ladder
from edgeserve.hosts.loop import IDLE_AFTER, STARVED, Loop
from edgeserve.hosts.run import Ended
from edgeserve.hosts.worker import Worker
from edgeserve.messages import Request
from edgeserve.residency.failure import explain
from edgeserve.residency.host import FOREVER, PATIENCE, Pressure, Scheduler
from edgeserve.residency.work import Work
from edgeserve.system import growth

log = logging.getLogger("edgeserve.gate")


class EngineHost(Facts):
    """A ``Host`` with up to three threads, which the first request of their kind starts. ``clock`` in seconds.

    The worker drives the loop and holds the engine meanwhile. The preparer prepares requests beside the answers under
    way, for an engine that can. The reader does the same for long texts to cut into tokens, a second of work each, so
    that they delay nobody else. Without tasks for ``idle_after`` seconds, the worker does the loop's idle work, if
    ``idle_work``.
    """

    def __init__(
        self,
        engine: Engine,
        abilities: Abilities,
        loop: Loop,
        pressure: Pressure,
        *,
        idle_work: bool,
        clock: Callable[[], float] = time.monotonic,
        idle_after: float = IDLE_AFTER,
    ) -> None:
        super().__init__(engine, abilities)
        self.rounds = 0
        self._loop = loop
        self._pressure = pressure
        self._ladder = Ladder(engine, abilities.limited, pressure.limits, clock)
        self._stirred = threading.Event()
        self._entrance = threading.Lock()
        self._due: Scheduler | None = None
        """The worker looks at its works as soon as it can: once, however many come while it never rests."""
        self._preparer = Worker(f"edgeserve-{self.spec.id}-prepare")
        self._reader = Worker(f"edgeserve-{self.spec.id}-read")
        self._worker = Worker(f"edgeserve-{self.spec.id}", self._do_idle_work if idle_work else None, idle_after)

    @property
    def slots(self) -> int:
        return self._loop.slots

    @property
    def stuck(self) -> bool:
        return self._loop.runs.stuck

    @property
    def healthy(self) -> bool:
        return self._worker.alive and self._preparer.alive and self._reader.alive

    @property
    def loading(self) -> bool:
        return self._ladder.climbing

    def give_up(self) -> None:
        """Nothing ends a load on a thread."""

    # Moves

    def check_nodes(self, make_way: Callable[[], None]) -> None:
        """All is on this machine."""

    def hold(self, seconds: float = FOREVER) -> AbstractContextManager[bool]:
        return self._ladder.hold(seconds)

    def map(self) -> None:
        self._ladder.map()

    def climb(self, to: Rung) -> None:
        self._ladder.climb(to)

    def step_down(self, to: Rung) -> None:
        self._ladder.step_down(to)

    def close(self) -> None:
        self._ladder.close()

    def shed(self, kind: str, amount: int) -> bool:
        if thrifty := self._abilities.thrifty:
            thrifty.shed(kind, amount)
        return thrifty is not None

    def keep(self, most: int) -> None:
        if thrifty := self._abilities.thrifty:
            thrifty.keep(most)

    def restore(self) -> bool:
        if thrifty := self._abilities.thrifty:
            thrifty.restore()
        return thrifty is not None

    # Work

    def submit(self, work: Work, scheduler: Scheduler) -> None:
        if (preparing := self._abilities.preparing) is None:
            self._arrive(work, scheduler)
        else:  # the task keeps no request: one that is cancelled while it waits is free at once
            long = work.is_long_text
            thread = self._reader if long else self._preparer
            thread.put(functools.partial(self._prepare_next, preparing, scheduler, long))

    def call(self, task: Callable[[], None]) -> Future[None]:
        return self._worker.call(task)

    def wake(self, scheduler: Scheduler | None = None) -> None:
        self._stirred.set()
        self._loop.wake()
        if scheduler is not None:
            self._call_worker(scheduler)

    def _call_worker(self, scheduler: Scheduler) -> None:
        with self._entrance:
            if self._due is scheduler:
                return
            self._due = scheduler
            try:
                self._worker.put(functools.partial(self._drive, scheduler))
            except Busy:
                self._due = None
                raise

    def slowest(self, seconds: float) -> Work | None:
        return self._loop.runs.slowest(seconds)

    def unread(self, seconds: float) -> tuple[Work, ...]:
        return self._loop.runs.unread(seconds)

    def all_unread(self, seconds: float) -> tuple[Work, ...]:
        return self._loop.runs.all_unread(seconds)

    def stop(self) -> None:
        self._preparer.stop()
        self._reader.stop()
        self._worker.stop()
        with self.hold():
            self.close()

    # On the preparer, and on the reader

    def _prepare_next(self, engine: Preparing, scheduler: Scheduler, long_texts: bool) -> None:
        work = scheduler.arriving(long_texts)
        if work is None:
            return
        try:
            work.prepared = work.context.run(self._prepare, engine, work.request)
            self._arrive(work, scheduler)
        except Exception as error:
            if work.ask_for_whole(error):  # in its turn the engine makes the whole context, and prepares
                self._arrive(work, scheduler)
            else:
                scheduler.refuse(work, error)

    def _prepare(self, engine: Preparing, request: Request) -> object | None:
        """None when the engine was closed meanwhile: then the engine prepares the request in its turn."""
        self.check_kind(request)
        if self.rung is Rung.COLD:
            self._ladder.map(functools.partial(self._pressure.opening, self.spec))
        try:
            with growth.others.work():
                return engine.prepare(request)  # type: ignore[arg-type]  # of a kind that the engine serves
        except EngineFailure as error:
            log.debug("%s prepares the request when its turn comes: %s", self.spec.name, error.message)
            return None

    def _arrive(self, work: Work, scheduler: Scheduler) -> None:
        if scheduler.arrive(work):
            self.wake(scheduler)

    # On the worker

    def _drive(self, scheduler: Scheduler) -> None:
        """Make answers until no work waits and none is under way; others may move the engine then."""
        self._due = None
        if not scheduler.waits():
            return  # an earlier round took the work in
        with self.hold():
            try:
                while len(self._loop.runs) or scheduler.waits():
                    self._go_round(scheduler)
            except Exception as error:  # a fault of the server itself: every reader hears of it
                self._loop.failed = True
                self._finish(self._loop.runs.end_all(error), scheduler)
                raise
        scheduler.went_idle()

    def _go_round(self, scheduler: Scheduler) -> None:
        self._stirred.clear()
        self.rounds += 1
        self._let_in(scheduler)
        self._finish(self._loop.turn(), scheduler)
        self._let_in(scheduler)  # a place may have come free just now: then no answer is cut
        if self._loop.runs.stuck or self._loop.starved or (self._loop.crowded and scheduler.waits()):
            self._await_readers(scheduler)

    def _let_in(self, scheduler: Scheduler) -> None:
        """Begin as many answers as there is room for. The first may wait for memory, the others never do.

        None begins beside an answer that continues in a failed engine, which closes when all have ended. A paused
        one may take its reader's time, and keeps nobody waiting.
        """
        runs = self._loop.runs
        while scheduler.waits() and self._loop.spare and not (self._loop.failed and len(runs) > runs.paused):
            admitted = scheduler.admit(beside=len(runs) > 0, newcomer=None if self._loop.free else self._loop.spare)
            if admitted is None:
                return
            try:
                admitted.work.context.run(self._loop.begin, admitted)
            except Exception as error:
                admitted.held.close()
                scheduler.finish(admitted, error)

    def _finish(self, ended: Iterable[Ended], scheduler: Scheduler) -> None:
        for one in ended:
            scheduler.finish(one.admitted, one.error)
        if self._loop.failed and not self._loop.runs:
            self._loop.failed = False
            self.close()

    def _await_readers(self, scheduler: Scheduler) -> None:
        """Wait until a reader has room, a request comes, or a paused answer must give its place to a waiting request.

        Returns at once while any answer can continue.
        """
        starved = self._loop.starved
        cut = scheduler.cut_slowest() if starved else scheduler.waits() and scheduler.cut_for_waiting()
        if not cut and (starved or self._loop.runs.stuck):
            seconds = STARVED if starved else PATIENCE / 10 if scheduler.waits() else None
            self._stirred.wait(seconds)

    def _do_idle_work(self) -> None:
        """Close the engine if its idle work fails; the next request opens it anew."""
        with self.hold():
            try:
                if self.rung is Rung.HOT:
                    self._prepare_for_next()
            except Exception as error:
                if isinstance(explain(self.spec.name, error), EngineFailure):
                    self.close()

    def _prepare_for_next(self) -> None:
        """Make the next answers cheaper, until a task comes."""
        with self._pressure.optional_memory() as free:
            for _ in self._loop.idle_work() if free else ():
                if self._worker.waiting:
                    return
