"""The answers of one engine that are under way, and the steps that make them.

The loop knows the engine, requests and events. It knows neither leases nor memory. One thread drives it: the gate's
worker, which holds the engine's lock.

An answer pauses where its reader has no room for more. It pauses only behind an event: llama.cpp keeps the logits of
the latest step alone, and an answer that waited in front of its next token would find those of others.
"""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from edgeserve.engine import Batching, Cancel, Engine
from edgeserve.errors import EdgeserveError, EngineFailure, NotSupported
from edgeserve.messages import Event, Request
from edgeserve.residency.work import METHODS, Work

log = logging.getLogger("edgeserve.gate")

CHECK_EVERY = 16
"""Events between two looks at the memory pressure (reference/eviction-versus-limits.md: every 16 tokens)."""

Answer = Generator[Event | None, None, None]


@dataclass(slots=True, eq=False)
class Run:
    """One answer under way. ``held`` gives its memory back. ``paused`` is when its reader had no room, else None."""

    work: Work
    answer: Answer
    started: float
    held: contextlib.ExitStack = field(default_factory=contextlib.ExitStack)
    events: int = 0
    paused: float | None = None


@dataclass(frozen=True, slots=True)
class Ended:
    """An answer that has ended; ``error`` is None when it ended well."""

    run: Run
    error: Exception | None = None


class Loop:
    """``check`` looks at the memory pressure and raises MemoryPressure. ``clock`` in seconds."""

    def __init__(self, engine: Engine, check: Callable[[], None], clock: Callable[[], float] = time.monotonic) -> None:
        self.batches = isinstance(engine, Batching)
        self.runs: list[Run] = []
        self.failed = False
        """A step failed: the engine must be closed as soon as no answer is under way."""
        self._spec = engine.spec
        self._engine: Batching | Serial = engine if isinstance(engine, Batching) else Serial(engine)
        self._methods = [method for method in METHODS.values() if hasattr(engine, method)]
        self._check = check
        self._clock = clock

    @property
    def slots(self) -> int:
        """Answers that are made at a time."""
        return self._engine.slots

    @property
    def free(self) -> bool:
        """May another answer begin? A paused one keeps its slot where the engine holds its state in it."""
        taken = self.runs if self.batches else [run for run in self.runs if run.paused is None]
        return len(taken) < self.slots

    def check_kind(self, request: Request) -> None:
        """Raises NotSupported for a request of a kind that the engine does not serve."""
        method = METHODS[type(request)]
        if method not in self._methods:
            raise NotSupported(f"{self._spec.name} serves {self._spec.job}; it cannot {method}")

    def begin(self, work: Work, started: float, held: contextlib.ExitStack) -> None:
        """Take in an answer of a kind that the engine serves; the engine is hot. ``held`` is closed when it ends."""
        answer: Any = self._engine.run(work.request, work.cancel, work.prepared)  # type: ignore[arg-type]
        self.runs.append(Run(work, answer, started, held))

    def turn(self) -> list[Ended]:
        """Make what can be made up to the next step, and take that step. Returns the answers that ended."""
        ended: list[Ended] = []
        stepping = False
        for run in tuple(self.runs):
            if run.paused is not None and run.work.cancel.is_set():
                ended.append(self._ended(run))
            elif run.paused is None or run.work.room():
                try:
                    stepping |= run.work.context.run(self._tell, run)
                except StopIteration:
                    ended.append(self._ended(run))
                except Exception as error:  # an answer's failure is its own
                    self.failed |= not self.batches and _of_the_engine(error)
                    ended.append(self._ended(run, error))
        if stepping:
            try:
                self._engine.step()
            except Exception as error:
                return ended + self.end_all(error)
        return ended

    @property
    def stuck(self) -> bool:
        """Does every answer wait for its reader?"""
        return bool(self.runs) and all(
            run.paused is not None and not run.work.cancel.is_set() and not run.work.room() for run in self.runs
        )

    @property
    def starved(self) -> bool:
        """Can no answer go on before one that waits for its reader gives its room back?"""
        return bool(getattr(self._engine, "starved", False)) and any(run.paused is not None for run in self.runs)

    def slowest(self, seconds: float) -> Run | None:
        """The answer that has waited longest for its reader, and at least so long."""
        now = self._clock()
        # The loop's thread may let it go on between two looks.
        waiting = [(since, run) for run in tuple(self.runs) if (since := run.paused) is not None]
        since, run = min(waiting, key=lambda one: one[0], default=(now, None))
        return run if now - since >= seconds else None

    def end_all(self, error: Exception) -> list[Ended]:
        """The engine failed: none of its answers can go on."""
        self.failed = True
        return [self._ended(run, error) for run in tuple(self.runs)]

    def idle_work(self) -> Iterator[None]:
        """Steps that make the next answers cheaper, while none is made."""
        yield from self._engine.idle_work()

    def _tell(self, run: Run) -> bool:
        """Pass events on, up to where the answer needs a step (True) or its reader has no room (False)."""
        run.paused = None
        while (event := next(run.answer)) is not None:
            run.work.emit(event)
            run.events += 1
            if run.events % CHECK_EVERY == 0:
                self._check()
            if not run.work.room():
                run.paused = self._clock()
                return False
        return True

    def _ended(self, run: Run, error: Exception | None = None) -> Ended:
        self.runs.remove(run)
        try:
            run.answer.close()
        except Exception:
            log.exception("an answer could not be closed")
        finally:
            run.held.close()
        return Ended(run, error)


class Serial:
    """An engine that makes one answer at a time, as one that batches: between two events others may have their turn."""

    slots = 1

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def run(self, request: Request, cancel: Cancel, prepared: object | None = None) -> Answer:
        # Closed here, or an answer that is cut would live on in its error, and free what it holds too late.
        with contextlib.closing(getattr(self._engine, METHODS[type(request)])(request, cancel)) as events:
            for event in events:
                if event is not None:
                    yield event
                yield None

    def step(self) -> None:
        """Nothing: such an engine computes while its events are asked for."""

    def idle_work(self) -> Iterator[None]:
        yield from ()


def _of_the_engine(error: Exception) -> bool:
    """Such an engine computes while its answers are made, so what it does not refuse is a failing step."""
    return isinstance(error, EngineFailure) or not isinstance(error, EdgeserveError)
