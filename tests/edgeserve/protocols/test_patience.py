"""Unread answers: their places go to others after a while, also beside answers that go on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.contract import ask
from support.gates import PATIENCE_SECONDS, Clock, Mailbox, engine_of, fake_spec, gate_of
from support.server import until

from edgeserve.engines.fake.chat import FakeBatchChat, FakeChat
from edgeserve.errors import SlowReader
from edgeserve.hosts import engine_host
from edgeserve.hosts.loop import STARVED
from edgeserve.messages import TokenEvent
from edgeserve.residency.gate import Gate
from edgeserve.residency.host import PATIENCE
from edgeserve.residency.work import Work


class Sharing(FakeBatchChat):
    """A request "wait" has no room beside another. A request "endless" never ends by itself."""

    def __init__(self, slots: int) -> None:
        super().__init__(fake_spec("llm", slots=slots))
        self.rounds = 0

    @property
    def starved(self) -> bool:
        return self.peak > 100

    def run(self, request: Any, cancel: Any, prepared: object | None = None) -> Any:
        text = request.messages[-1].text
        if text == "wait":
            self.peak = 101
            while self._running:
                self.rounds += 1
                yield None
            self.peak = 1
        elif text == "endless":
            while not cancel.is_set():
                yield None
            return
        yield from super().run(request, cancel)


@pytest.fixture
def make() -> Iterator[Callable[..., Gate]]:
    made: list[Gate] = []

    def build(slots: int, clock: Clock) -> Gate:
        made.append(gate_of(Sharing(slots), clock=clock))
        return made[-1]

    yield build
    for gate in made:
        gate.stop()


def submit(gate: Gate, text: str, room: Callable[[], bool] = lambda: True) -> tuple[Mailbox, Work]:
    box = Mailbox()
    work = box.work(ask(text))
    work.room = room
    gate.submit(work)
    return box, work


def test_a_paused_answer_gives_its_place_up_while_another_goes_on(make: Callable[..., Gate]) -> None:
    clock = Clock()
    gate = make(2, clock)
    unread, _ = submit(gate, "one two", lambda: False)
    assert unread.items.get(timeout=PATIENCE_SECONDS) == TokenEvent("one")
    submit(gate, "endless")
    waiting, _ = submit(gate, "three")
    clock.now += PATIENCE
    assert waiting.rest()[1] is None
    assert isinstance(unread.rest()[1], SlowReader)


@pytest.mark.parametrize("paused", [1, 2])
def test_a_paused_answer_is_cut_only_where_no_place_is_free(make: Callable[..., Gate], paused: int) -> None:
    """A request that comes during a step finds a free place, or the gate cuts one answer for it."""
    clock = Clock()
    gate = make(3, clock)
    engine: Any = engine_of(gate)
    stepping, go = threading.Event(), threading.Event()
    unread = [submit(gate, "one two", lambda: False) for _ in range(paused)]
    for box, _ in unread:
        assert box.items.get(timeout=PATIENCE_SECONDS) == TokenEvent("one")
    clock.now += PATIENCE
    step = engine.step
    engine.step = lambda: (stepping.set(), go.wait(PATIENCE_SECONDS), step())
    _, endless = submit(gate, "endless")
    assert stepping.wait(PATIENCE_SECONDS)
    waiting, _ = submit(gate, "three")
    go.set()
    assert waiting.rest()[1] is None
    assert sum(work.cancel.is_set() for _, work in unread) == paused - 1
    gate.cancel(endless)


def test_beside_a_paused_answer_those_that_wait_follow_each_other_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine_host, "PATIENCE", 1000.0)  # a wait for it would outlast the test
    gate = gate_of(FakeChat(fake_spec("llm")))
    try:
        unread, work = submit(gate, "one two", lambda: False)
        assert unread.items.get(timeout=PATIENCE_SECONDS) == TokenEvent("one")
        boxes = [submit(gate, "three four")[0] for _ in range(4)]
        assert [box.rest()[1] for box in boxes] == [None] * 4
        gate.cancel(work)
    finally:
        gate.stop()


@pytest.mark.slow
def test_an_answer_without_room_gets_that_of_a_paused_one(make: Callable[..., Gate]) -> None:
    clock = Clock()
    gate = make(2, clock)
    unread, _ = submit(gate, "one two", lambda: False)
    assert unread.items.get(timeout=PATIENCE_SECONDS) == TokenEvent("one")
    starved, _ = submit(gate, "wait")
    engine: Any = engine_of(gate)
    until(lambda: engine.rounds > 0)
    begun, before = time.monotonic(), engine.rounds
    threading.Event().wait(0.2)
    rounds = engine.rounds - before
    assert rounds < 2 * (time.monotonic() - begun) / STARVED, "it does not turn round and round meanwhile"
    clock.now += PATIENCE
    assert starved.rest()[1] is None
    assert isinstance(unread.rest()[1], SlowReader)
