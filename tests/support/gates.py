"""Gates over fake engines, and a governor that admits every request and counts the calls."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, cast

from edgeserve.engine import ModelSpec, Rung
from edgeserve.engines.fake.chat import FakeBatchChat, FakeChat
from edgeserve.engines.fake.engine import FakeSpeechToText, FakeTextToSpeech
from edgeserve.engines.fake.rerank import FakeRerank
from edgeserve.engines.fake.speakers import FakeDiarizer
from edgeserve.errors import EdgeserveError
from edgeserve.figures.figures import Figures
from edgeserve.hosts.loop import IDLE_AFTER
from edgeserve.hosts.thread_host import ThreadHost
from edgeserve.jobs import Job
from edgeserve.memory.resident import Moved
from edgeserve.memory.terms import NEW, Terms
from edgeserve.messages import Request
from edgeserve.residency.gate import Gate
from edgeserve.residency.work import Done, Work

PATIENCE_SECONDS = 60.0
"""Longest wait of a test for what must come. It costs nothing, and a machine at its limit may need 20 s for a start."""
FAKES: dict[Job, Any] = {"llm": FakeChat, "vision": FakeChat, "asr": FakeSpeechToText, "tts": FakeTextToSpeech}
FAKES |= {"embedding": FakeChat, "rerank": FakeRerank, "speaker": FakeDiarizer}
BATCHING_FAKES: dict[Job, Any] = {**FAKES, "llm": FakeBatchChat, "vision": FakeBatchChat}


def fake_spec(job: Job = "llm", **options: Any) -> ModelSpec:
    return ModelSpec(job, f"fake-{job}", f"{FAKES[job].__module__}:{FAKES[job].__name__}", options=options)


@dataclass
class CountingGovernor:
    """Admits every request; ``refuse`` makes it raise that error instead."""

    refuse: EdgeserveError | None = None
    reserved: int = 0
    settled: int = 0
    released: int = 0
    checks: int = 0
    steps: list[tuple[str, Rung, str]] = field(default_factory=list)
    heap_returns: int = 0
    dropped: list[str] = field(default_factory=list)
    outgrown: list[str] = field(default_factory=list)
    figures: Figures = field(default_factory=Figures)
    deaths: list[tuple[str, int | None]] = field(default_factory=list)
    opened: list[str] = field(default_factory=list)
    bytes_here: int = 1 << 40
    waited_for: bool = False

    def adopt(self, resident: Any) -> None: ...

    def forget(self, resident: Any) -> None:
        pass

    def wake(self) -> None: ...

    def reserve(self, resident: Any, terms: Terms = NEW) -> contextlib.AbstractContextManager[object]:
        if self.refuse:
            raise self.refuse
        self.reserved += 1
        return self._reservation()

    def _reservation(self) -> contextlib.AbstractContextManager[object]:
        """Released by its end alone. A generator would also end when it is forgotten, and hide that nobody ended it."""
        ending = contextlib.ExitStack()
        ending.callback(self._release)
        return ending

    def _release(self) -> None:
        self.released += 1

    def reserve_at_once(self, resident: Any, whole: bool = False) -> object | None:
        return self.reserve(resident)

    def has_room_in_place(self, resident: Any) -> bool:
        return True

    def reserve_if_free(self, resident: Any) -> object | None:
        return None if self.refuse else self.reserve(resident)

    def release_idle_heap(self) -> None:
        self.heap_returns += 1

    @contextlib.contextmanager
    def optional_memory(self) -> Iterator[bool]:
        yield not self.refuse

    @contextlib.contextmanager
    def opening(self, spec: ModelSpec) -> Iterator[None]:
        self.opened.append(spec.name)
        yield

    def drop_prefix_cache(self, resident: Any) -> None:
        self.dropped.append(resident.id)

    def in_the_way(self, spec: ModelSpec) -> bool:
        return self.waited_for

    def room(self, spec: ModelSpec) -> int:
        return self.bytes_here

    def ended(self, spec: ModelSpec, code: int | None) -> None:
        self.deaths.append((spec.name, code))

    def outgrew(self, spec: ModelSpec) -> None:
        self.outgrown.append(spec.name)

    def settle(self, reservation: object) -> None:
        self.settled += 1

    def check(self) -> None:
        self.checks += 1

    def limits(self) -> None: ...

    def step_down(self, resident: Any, to: Rung, reason: str) -> None:
        if isinstance(resident.step_down(to), Moved):
            self.steps.append((resident.spec.name, to, reason))


class Clock:
    """Seconds, moved by hand."""

    def __init__(self, now: float = 1000.0) -> None:
        self.now = now

    def __call__(self) -> float:
        return self.now


def make_gate(job: Job = "llm", governor: Any = None, **settings: Any) -> Gate:
    """A gate over a fake engine of a kind; ``options`` are the engine's."""
    options = settings.pop("options", {})
    return gate_of(FAKES[job](fake_spec(job, **options)), governor, **settings)


def gate_of(engine: Any, governor: Any = None, *, idle_after: float = IDLE_AFTER, **settings: Any) -> Gate:
    """A gate over an engine on threads of this process."""
    governor = governor or CountingGovernor()
    clock = settings.get("clock", time.monotonic)
    return Gate(ThreadHost(engine, governor, clock=clock, idle_after=idle_after), governor, **settings)


def engine_of(gate: Gate) -> Any:
    """The engine behind a gate that ``gate_of`` made."""
    return cast(ThreadHost, gate.host).engine


class Mailbox:
    """Receives the events of one piece of work."""

    def __init__(self) -> None:
        self.items: queue.SimpleQueue[Any] = queue.SimpleQueue()

    def work(self, request: Request) -> Work:
        return Work(request, self.items.put)

    def rest(self, timeout: float = PATIENCE_SECONDS) -> tuple[list[Any], EdgeserveError | None]:
        """All events up to the end, and how it ended."""
        events: list[Any] = []
        while not isinstance(item := self.items.get(timeout=timeout), Done):
            events.append(item)
        return events, item.error


def run(gate: Gate, request: Request, before: Callable[[Work], None] = lambda work: None) -> Any:
    """One request through the gate, lease included: its events and its error."""
    mailbox = Mailbox()
    gate.acquire()
    try:
        work = mailbox.work(request)
        before(work)
        gate.submit(work)
        return mailbox.rest()
    finally:
        gate.release()


class Held:
    """Makes a fake engine wait at each unit of work until ``go`` is set."""

    def __init__(self, engine: Any) -> None:
        self.entered = threading.Event()
        self.go = threading.Event()
        engine.on_work = self._wait

    def _wait(self) -> None:
        self.entered.set()
        assert self.go.wait(PATIENCE_SECONDS)


class HeldAnswer(Held):
    """Makes the answer of a fake engine wait after its first word until ``go`` is set, or the block ends.

    What a test does meanwhile meets an answer under way, however slow the machine is. ``begun`` counts the words.
    """

    def __init__(self, gate: Gate) -> None:
        self._engine, self.begun = engine_of(gate), 0
        super().__init__(self._engine)

    def _wait(self) -> None:
        if self._engine.rung is Rung.HOT:
            self.begun += 1
            if self.begun > 1:
                super()._wait()

    def __enter__(self) -> HeldAnswer:
        return self

    def __exit__(self, *raised: object) -> None:
        self.go.set()
