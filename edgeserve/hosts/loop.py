"""The steps that make the answers of one engine.

A loop knows the engine, requests and events. It knows neither leases nor reservations. One thread drives it, and that
thread holds the engine.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Protocol

from edgeserve.clients import Idle
from edgeserve.engine import Batching, Engine
from edgeserve.engine_abilities import Parallel
from edgeserve.errors import EdgeserveError, EngineFailure
from edgeserve.hosts.run import Answer, Ended
from edgeserve.hosts.runs import Runs
from edgeserve.messages import Rest
from edgeserve.residency import wakes
from edgeserve.residency.work import METHODS, Admitted, Work

IDLE_AFTER = 0.3
"""Seconds without a request before idle work: the next request of a program that asks on need not wait for it."""
STARVED = 0.01
"""Seconds between two checks of an answer that has no room beside the paused ones."""
ONE_BY_ONE = frozenset({"tts", "embedding", "rerank"})
"""Jobs whose answers compute for themselves, in steps that may take seconds: keys share the time of such an engine."""


class Loop(Protocol):
    """``failed``: the engine failed; the host closes it as soon as no answer is under way, and resets the flag."""

    runs: Runs
    failed: bool

    @property
    def slots(self) -> int:
        """Answers that the engine makes at a time."""
        ...

    @property
    def free(self) -> bool:
        """True when another answer may begin."""
        ...

    @property
    def spare(self) -> Idle | None:
        """Who may begin an answer, also where ``free`` is false, if none of theirs is under way. None: nobody may."""
        ...

    @property
    def crowded(self) -> bool:
        """True when a paused answer keeps a place that a waiting request could take."""
        ...

    @property
    def starved(self) -> bool:
        """True when no answer can continue before a paused one gives its room in the engine back."""
        ...

    def begin(self, admitted: Admitted) -> None:
        """Take in an answer of a kind that the engine serves. Requires hot."""
        ...

    def turn(self) -> list[Ended]:
        """Let every answer continue up to the next step, and take that step. Returns the answers that ended."""
        ...

    def idle_work(self) -> Iterator[None]:
        """Work that makes the next answers cheaper, in short steps, while none is under way. Requires hot."""
        ...

    def wake(self) -> None:
        """Let a turn that waits continue: a request came, a reader has room, or an answer is cancelled. Any thread."""
        ...


class SerialLoop:
    """For an engine that computes one answer at a time, while its events are asked for.

    Between two events other answers have their turn: those of a ``Parallel`` engine, and the next one in the place of a
    paused answer. Transcriptions go round: the encoder of a short recording would count as much as all its other steps.
    """

    crowded = starved = False

    def __init__(self, engine: Engine, runs: Runs) -> None:
        self.runs = runs
        self.failed = False
        self._engine = engine

    @property
    def slots(self) -> int:
        return self._engine.slots if isinstance(self._engine, Parallel) else 1

    @property
    def free(self) -> bool:
        return len(self.runs) - self.runs.paused < self.slots

    @property
    def spare(self) -> Idle | None:
        return Idle.CLIENT if self.free else self.runs.give_turn(self.slots)

    def begin(self, admitted: Admitted) -> None:
        self.runs.add(admitted, self._answer(admitted.work))

    def turn(self) -> list[Ended]:
        alone = self._engine.spec.job in ONE_BY_ONE
        ended = self.runs.advance_one() if alone else self.runs.advance()[0]
        self.failed |= any(one.error is not None and _of_the_engine(one.error) for one in ended)
        return ended

    def idle_work(self) -> Iterator[None]:
        yield from ()

    def wake(self) -> None:
        """A turn computes and never waits."""

    def _answer(self, work: Work) -> Answer:
        answer = getattr(self._engine, METHODS[type(work.request)])
        # Closed here: a cut answer would else live on in its error, and free its memory too late.
        with contextlib.closing(answer(work.request, work.cancel)) as events:
            for event in events:
                if event is not None:
                    yield event
                if not isinstance(event, Rest):  # it took no time
                    yield None


class BatchLoop:
    """For an engine that makes several answers at once, a token of each in every step.

    A paused answer keeps its slot: the engine holds its state there.
    """

    def __init__(self, engine: Batching, runs: Runs) -> None:
        self.runs = runs
        self.failed = False
        self._engine = engine
        self._ended = False
        """Answers ended in the latest turn, which took no step."""

    @property
    def slots(self) -> int:
        return self._engine.slots

    @property
    def free(self) -> bool:
        return len(self.runs) < self.slots

    @property
    def spare(self) -> Idle | None:
        return self.runs.give_place(self.slots, self._engine.beside)

    @property
    def crowded(self) -> bool:
        return self.runs.paused > 0

    @property
    def starved(self) -> bool:
        return self._engine.starved and self.runs.paused > 0

    def begin(self, admitted: Admitted) -> None:
        work: Any = admitted.work  # the host has checked that its request is of a kind that the engine serves
        self.runs.add(admitted, self._engine.run(work.request, work.cancel, work.prepared))

    def turn(self) -> list[Ended]:
        if self._engine.spec.job in ONE_BY_ONE:
            return self.runs.advance_one()
        with wakes.held():
            ended, stepping = self.runs.advance()
        # The step comes in the next turn: their clients would wait for it, and it may read a piece of a prompt.
        self._ended = bool(ended) and not self._ended
        if stepping and not self._ended:
            try:
                self._engine.step()
            except Exception as error:
                self.failed = True
                return ended + self.runs.end_all(error)
        return ended

    def idle_work(self) -> Iterator[None]:
        return self._engine.idle_work()

    def wake(self) -> None:
        """A turn computes and never waits."""


def loop_of(engine: Engine, runs: Runs) -> Loop:
    """The loop that suits an engine in this process."""
    return BatchLoop(engine, runs) if isinstance(engine, Batching) else SerialLoop(engine, runs)


def _of_the_engine(error: Exception) -> bool:
    """True unless the engine refused the request: a serial engine computes its answer in its events."""
    return isinstance(error, EngineFailure) or not isinstance(error, EdgeserveError)
