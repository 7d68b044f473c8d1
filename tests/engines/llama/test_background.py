"""The grammar of one answer takes no time of another answer, and nothing is freed while it is at work."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from support.hot import hot
from support.tiny_gguf import write_model

from edgeserve.engine import ModelSpec
from edgeserve.engines.grammar import matcher
from edgeserve.engines.llama import background as llama_background
from edgeserve.engines.llama.background import Background
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.constraint import Constraint
from edgeserve.engines.llama.own_constraint import OwnConstraint
from edgeserve.engines.llama.sampler import Sampler
from edgeserve.errors import Busy, Cancelled
from edgeserve.messages import ChatRequest, FinishEvent, Sampling

LONG = 20.0
"""Seconds until a test that hangs is told to fail."""


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(llama_background, "POLL_ALONE", 0.001)


def drained(steps: Generator[None, None, Any]) -> Any:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            return end.value


def test_quick_work_takes_no_step() -> None:
    with pytest.raises(StopIteration) as end:
        next(Background(lambda: 0).run(lambda: 7))
    assert end.value.value == 7


def test_others_go_on_until_slow_work_is_done() -> None:
    go = threading.Event()
    steps = Background(lambda: 2).run(lambda: go.wait(LONG))
    assert [next(steps) for _ in range(5)] == [None] * 5
    go.set()
    assert drained(steps) is True


def test_an_error_of_the_work_is_raised_in_its_answer() -> None:
    def fail() -> None:
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"):
        drained(Background(lambda: 0).run(fail))


def test_a_result_after_the_answer_is_closed_is_undone_before_the_end() -> None:
    go, over, told = threading.Event(), threading.Event(), list[object]()
    background = Background(lambda: 2)
    steps = background.run(lambda: go.wait(LONG), told.append)
    next(steps)
    steps.close()
    background.when_done(lambda: (told.append("end"), over.set()))
    assert not told
    go.set()
    assert over.wait(LONG)
    assert told == [True, "end"]


def test_work_without_a_thread_is_refused_and_never_done(monkeypatch: pytest.MonkeyPatch) -> None:
    """It stayed in the queue, and another thread did it when its answer had freed its sampler."""
    refusing = [True]

    def start(self: threading.Thread) -> None:
        if refusing[0]:
            raise RuntimeError("can't start new thread")
        began(self)

    began = threading.Thread.start
    pool = ThreadPoolExecutor(2)
    monkeypatch.setattr(llama_background, "computing", lambda: pool)
    monkeypatch.setattr(threading.Thread, "start", start)
    done: list[str] = []
    with pytest.raises(Busy):
        drained(Background(lambda: 0).run(lambda: done.append("refused")))
    refusing[0] = False
    drained(Background(lambda: 0).run(lambda: done.append("taken")))
    pool.shutdown()
    assert done == ["taken"]


def test_queued_work_of_a_closed_answer_is_never_done(monkeypatch: pytest.MonkeyPatch) -> None:
    pool, go = ThreadPoolExecutor(1), threading.Event()
    monkeypatch.setattr(llama_background, "computing", lambda: pool)
    done: list[str] = []
    under_way = Background(lambda: 2).run(lambda: go.wait(LONG))
    next(under_way)
    for _ in range(20):
        background = Background(lambda: 2)
        left = background.run(lambda: done.append("left"))
        next(left)
        left.close()
        background.when_done(lambda: done.append("freed"))
    go.set()
    assert drained(under_way) is True
    pool.shutdown()
    assert done == ["freed"] * 20


# With an engine of random weights


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[LlamaChat]:
    files = {"model": write_model(tmp_path / "tiny.gguf", "llama")}
    options = {"context": 512, "parallel": 3}
    with hot(
        LlamaChat(ModelSpec("llm", "tiny", "edgeserve.engines.llama.chat:LlamaChat", files, threads=1, options=options))
    ) as engine:
        yield engine


class Slow:
    """A grammar that takes until ``go`` for each token; ``begun`` with the first."""

    def __init__(self) -> None:
        self.begun, self.go = threading.Event(), threading.Event()

    def sample(self, chain: Any, logits: Any) -> int:
        self.begun.set()
        self.go.wait(LONG)
        return 5

    def begin(self, engine: LlamaChat, events: Iterator[Any]) -> None:
        """Take steps until the grammar works at a token of the answer."""
        until_then = time.monotonic() + LONG
        while not self.begun.is_set():
            assert time.monotonic() < until_then
            assert next(events) is None
            engine.step()


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> Slow:
    slow = Slow()
    monkeypatch.setattr(Constraint, "sample", lambda _, chain, logits: slow.sample(chain, logits))
    return slow


FREE = ChatRequest(prompt=(5, 6, 7), max_tokens=5, sampling=Sampling(temperature=0.0))
HELD = dataclasses.replace(FREE, json_schema='{"type": "string"}')


def until(engine: LlamaChat, events: Any, over: Callable[[object], bool]) -> None:
    for event in events:
        if event is None:
            engine.step()
        elif over(event):
            return


@pytest.mark.models
def test_a_slow_grammar_delays_no_other_answer(engine: LlamaChat, slow: Slow) -> None:
    held, free = engine.run(HELD, threading.Event()), engine.run(FREE, threading.Event())
    slow.begin(engine, held)
    until(engine, free, lambda event: isinstance(event, FinishEvent))
    slow.go.set()
    until(engine, held, lambda event: isinstance(event, FinishEvent))
    held.close()


@pytest.mark.models
def test_a_closed_answer_frees_its_grammar_once_the_work_has_ended(
    engine: LlamaChat, slow: Slow, monkeypatch: pytest.MonkeyPatch
) -> None:
    freed, free, model = threading.Event(), Sampler.free, engine._model
    monkeypatch.setattr(Sampler, "free", lambda self: (free(self), freed.set()))
    assert model is not None
    held = engine.run(HELD, threading.Event())
    slow.begin(engine, held)
    held.close()
    assert engine._batch is not None
    assert engine._batch.busy == 0
    engine.close()
    assert (model.users, freed.is_set()) == (1, False)
    slow.go.set()
    assert freed.wait(LONG)


WAYS = "root ::= one" + "|one" * 1000 + "\none ::= " + "|" * 1000
"""A client's grammar with a million ways to its first character: some seconds of work."""


@pytest.mark.models
def test_work_on_a_clients_grammar_ends_with_its_answer(engine: LlamaChat, monkeypatch: pytest.MonkeyPatch) -> None:
    """It went on for as long as its steps allowed, and eight such answers held all threads of grammars."""
    begun, ended, pause = threading.Event(), threading.Event(), OwnConstraint._pause

    def noted(self: OwnConstraint) -> None:
        begun.set()
        try:
            pause(self)
        except Cancelled:
            ended.set()
            raise

    monkeypatch.setattr(OwnConstraint, "_pause", noted)
    monkeypatch.setattr(matcher, "STEPS", 10**12)
    held = engine.run(dataclasses.replace(FREE, grammar=WAYS), threading.Event())
    while not begun.is_set():
        assert next(held) is None
        engine.step()
    held.close()
    assert ended.wait(LONG)
    free = engine.run(dataclasses.replace(FREE, grammar='root ::= "a"*'), threading.Event())
    until(engine, free, lambda event: isinstance(event, FinishEvent))
