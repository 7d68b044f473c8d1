"""The gate of an engine that makes several answers at once: the same lock, leases and ladder, one loop for all."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Generator
from dataclasses import dataclass
from typing import Any, cast

from edgeserve.engine import Batching, Rung
from edgeserve.errors import EdgeserveError, EngineFailure, NotSupported
from edgeserve.gate import CHECK_EVERY, Gate
from edgeserve.memory.governor import Reservation
from edgeserve.messages import ChatEvent, ChatRequest, EmbeddingEvent, EmbedRequest
from edgeserve.work import METHODS, Work

log = logging.getLogger("edgeserve.gate")

REST_AFTER = 0.3
"""Seconds without a request: those of a program that asks on at once need not wait for what is done then."""


@dataclass(slots=True, eq=False)
class Run:
    """One answer in the making. ``events`` counts those told."""

    work: Work
    answer: Generator[ChatEvent | EmbeddingEvent | None, None, None]
    reservation: Reservation
    started: float
    events: int = 0


class BatchGate(Gate):
    """Work waits in ``_waiting`` and is taken into the loop as slots come free, in the order it came.

    The loop runs on the gate's worker under the engine's lock, from the first request to the last; a request that
    comes meanwhile joins at the next step. No request waits for memory while others are answered: it joins at once or
    when they are done.
    """

    def __init__(self, *args: Any, **more: Any) -> None:
        super().__init__(*args, **more)
        self._batching = cast(Batching, self.engine)
        self._waiting: deque[Work] = deque()
        self._runs: list[Run] = []
        self._answering = False
        self._worker.when_idle(self._rest, REST_AFTER)

    @property
    def slots(self) -> int:
        return self._batching.slots

    def submit(self, work: Work) -> None:
        with self._state:
            self._open_work.append(work)
            self._waiting.append(work)
        self._worker.put(self._answer_all)

    def _answer_all(self) -> None:
        """Until nothing waits: then the engine may be moved."""
        if not self._waiting:
            return  # taken in by an earlier round
        with self._engine_lock:
            self._answering = True
            while self._waiting or self._runs:
                self._let_in()
                for run in tuple(self._runs):
                    self._go_on(run)
                if self._runs:
                    self._step()
            self._answering = False

    def _let_in(self) -> None:
        """As many as there are slots. The first may wait for memory and for the way up, the others do not."""
        while self._waiting and len(self._runs) < self.slots:
            work = self._waiting[0]
            started, reservation = self._clock(), None
            if not work.cancel.is_set() and self._runs:
                reservation = self._governor.reserve_at_once(self)
                if reservation is None:
                    return
            self._waiting.popleft()
            if work.cancel.is_set():
                self._finish(work, None, started)
            else:
                work.context.run(self._begin, work, reservation, started)

    def _begin(self, work: Work, reservation: Reservation | None, started: float) -> None:
        try:
            if not isinstance(work.request, ChatRequest | EmbedRequest):
                method = METHODS[type(work.request)]
                raise NotSupported(f"{self.spec.name} serves {self.job}; it cannot {method}")
            reservation = reservation or self._reserve()
            self._climb(Rung.HOT)
            self._governor.settle(reservation)
        except Exception as error:
            if reservation is not None:
                self._governor.release(reservation)
            self._finish(work, self._told(error), started)
            return
        self.on_serve(work.request)
        self._runs.append(Run(work, self._batching.run(work.request, work.cancel), reservation, started))

    def _go_on(self, run: Run) -> None:
        """Tell what has become certain of one answer, up to where it needs the next step."""
        try:
            run.work.context.run(self._tell, run)
        except StopIteration:
            self._end(run, None)
        except EngineFailure as error:
            self._end_all(error)
        except EdgeserveError as error:
            self._end(run, error)
        except Exception as error:  # which closes the engine: no answer can go on
            self._end_all(error)

    def _tell(self, run: Run) -> None:
        while (event := next(run.answer)) is not None:
            run.work.emit(event)
            run.events += 1
            if run.events % CHECK_EVERY == 0:
                self._governor.check()

    def _step(self) -> None:
        try:
            self._batching.step()
        except Exception as error:
            self._end_all(error)

    def _end(self, run: Run, error: EdgeserveError | None) -> None:
        self._runs.remove(run)
        run.answer.close()
        self._governor.release(run.reservation)
        self._finish(run.work, error, run.started)

    def _end_all(self, error: Exception) -> None:
        """The engine failed: none of its answers can go on."""
        for run in self._runs:
            run.answer.close()
        told = self._told(error)
        for run in tuple(self._runs):
            self._end(run, told)

    def _rest(self) -> None:
        """Errors close the engine, which the next request opens anew."""
        self._attempt(self._prepare_for_next)

    def _prepare_for_next(self) -> None:
        if self.rung is not Rung.HOT:
            return
        with self._governor.spare() as free:
            for _ in self._batching.rest() if free else ():
                if self._waiting:
                    return

    def _reset(self) -> None:
        if self._answering:  # on the worker, which holds the lock
            self._close_engine()
        else:
            super()._reset()
