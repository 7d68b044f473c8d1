"""Simulated boxes with memory, models and queues, and the events of one run of ``benchmarks.placement``."""

from __future__ import annotations

import heapq
import itertools
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from edgeserve.cluster.snapshot import ModelState, Node
from edgeserve.engine import Rung

QUEUE = 8
"""Requests that wait for one model, as ``[server] queue_limit``."""
LOAD_START, LOAD_RATE = 0.5, 400.0
"""Seconds to start an engine, and MB of weights that a disk reads in a second."""
CORES = 4
"""Answers that a box makes at full speed; more of them share its processor."""
PREFILL = 0.5
"""Share of the work that a node saves for a conversation whose prefix it holds."""


@dataclass(frozen=True, slots=True)
class Model:
    """``size`` in MB. ``seconds``: mean work of an answer. ``slots``: answers at a time."""

    name: str
    size: int
    seconds: float
    slots: int


@dataclass(frozen=True, slots=True)
class Request:
    """``at`` in seconds. ``work``: seconds of the answer on an idle box. ``talk``: its conversation."""

    number: int
    at: float
    model: Model
    work: float
    talk: int


@dataclass(slots=True)
class Held:
    """A model on a box. ``used``: time of its last use."""

    model: Model
    hot: bool = False
    loading: bool = False
    running: int = 0
    waiting: deque[Request] = field(default_factory=deque)
    used: float = 0.0
    talks: set[int] = field(default_factory=set)

    @property
    def taken(self) -> bool:
        return self.hot or self.loading

    @property
    def busy(self) -> bool:
        return self.loading or self.running > 0 or bool(self.waiting)


@dataclass(slots=True)
class Outcome:
    """Figures of one run: seconds that the served requests waited for their start."""

    waits: list[float] = field(default_factory=list)
    refused: int = 0
    loads: int = 0
    kept: int = 0


class Box:
    """One node: memory for its engines, and a queue for each model."""

    def __init__(self, name: str, budget: int, models: Sequence[Model]) -> None:
        self.name, self.budget = name, budget
        self.held = {one.name: Held(one) for one in models}
        self.running = 0
        self.connections = 0

    @property
    def used(self) -> int:
        return sum(one.model.size for one in self.held.values() if one.taken)

    def report(self) -> Node:
        """The box as it reports itself; sizes in MB."""
        return Node(self.name, self.budget, self.used, models=tuple(map(_state, self.held.values())))

    def make_room(self, wanted: Held) -> bool:
        """Let idle models leave, the least recently used first, until the model fits."""
        idle = sorted((one for one in self.held.values() if one.hot and not one.busy), key=lambda one: one.used)
        if wanted.model.size > self.budget - self.used + sum(one.model.size for one in idle):
            return False
        for one in idle:
            if wanted.model.size <= self.budget - self.used:
                break
            one.hot = False
            one.talks.clear()
        return True


def _state(one: Held) -> ModelState:
    return ModelState(
        id=one.model.name,
        name=one.model.name,
        job="llm",
        rung=Rung.HOT if one.hot else Rung.COLD,
        expected=one.model.size,
        held=one.model.size if one.taken else 0,
        requests=one.running + len(one.waiting),
        slots=one.model.slots,
    )


Choose = Callable[[Request], int | None]
"""The number of the box for a request; None refuses it."""


class Run:
    """One run over a trace. ``on_tick`` is called each second of the simulated time, ``on_end`` for each answer."""

    def __init__(
        self,
        boxes: Sequence[Box],
        choose: Choose,
        on_tick: Callable[[], None] = lambda: None,
        on_end: Callable[[Request], None] = lambda request: None,
    ) -> None:
        self.boxes, self.choose, self.on_tick, self.on_end = boxes, choose, on_tick, on_end
        self.outcome = Outcome()
        self._events: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = itertools.count()

    def play(self, trace: Iterator[Request]) -> Outcome:
        tick = 0.0
        for request in trace:
            while tick <= request.at:
                self._until(tick)
                self.on_tick()
                tick += 1.0
            self._until(request.at)
            self._arrive(request)
        self._until(float("inf"))
        return self.outcome

    def _at(self, time: float, event: Callable[[float], None]) -> None:
        heapq.heappush(self._events, (time, next(self._numbers), event))

    def _until(self, time: float) -> None:
        while self._events and self._events[0][0] <= time:
            at, _, event = heapq.heappop(self._events)
            event(at)

    def _arrive(self, request: Request) -> None:
        chosen = self.choose(request)
        box = None if chosen is None else self.boxes[chosen]
        if box is None or request.model.size > box.budget:
            self._refuse(request)
            return
        held = box.held[request.model.name]
        if len(held.waiting) >= QUEUE:
            self._refuse(request)
            return
        held.waiting.append(request)
        box.connections += 1
        self._advance(box, request.at)

    def _refuse(self, request: Request) -> None:
        self.outcome.refused += 1
        self.on_end(request)

    def _advance(self, box: Box, now: float) -> None:
        """Begin everything that can begin: loads first come, first served, then answers."""
        for held in sorted((one for one in box.held.values() if one.waiting), key=lambda one: one.waiting[0].at):
            if not held.taken and box.make_room(held):
                held.loading = True
                self.outcome.loads += 1
                self._at(now + LOAD_START + held.model.size / LOAD_RATE, self._loaded(box, held))
            while held.hot and held.waiting and held.running < held.model.slots:
                self._begin(box, held, held.waiting.popleft(), now)

    def _begin(self, box: Box, held: Held, request: Request, now: float) -> None:
        self.outcome.waits.append(now - request.at)
        held.running, held.used = held.running + 1, now
        box.running += 1
        known = request.talk in held.talks
        self.outcome.kept += known
        held.talks.add(request.talk)
        work = request.work * (PREFILL if known else 1.0) * max(1.0, box.running / CORES)
        self._at(now + work, self._ended(box, held, request))

    def _loaded(self, box: Box, held: Held) -> Callable[[float], None]:
        def event(now: float) -> None:
            held.loading, held.hot, held.used = False, True, now
            self._advance(box, now)

        return event

    def _ended(self, box: Box, held: Held, request: Request) -> Callable[[float], None]:
        def event(now: float) -> None:
            held.running, held.used = held.running - 1, now
            box.running -= 1
            box.connections -= 1
            self.on_end(request)
            self._advance(box, now)

        return event
