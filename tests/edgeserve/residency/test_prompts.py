"""Long prompts of a client are read one after the other, and wait in the queue meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.contract import ask
from support.examples import examples
from support.gates import CountingGovernor, fake_spec, gate_of
from support.server import until

from edgeserve.clients import Client
from edgeserve.engines.fake.chat import FakeBatchChat
from edgeserve.engines.fake.texts import Ready
from edgeserve.errors import ContextReduced
from edgeserve.messages import (
    ChatRequest,
    ContextEvent,
    FinishEvent,
    ImagePart,
    LoosenedEvent,
    Message,
    PromptEvent,
    Request,
    SpeakRequest,
    TokenEvent,
    Tool,
)
from edgeserve.residency.prompts import CHARACTERS, LONG_PROMPT, LONGEST, PICTURE, size_of
from edgeserve.residency.queue import Queue
from edgeserve.residency.rounds import Place
from edgeserve.residency.work import Done, Work

ADA, BOB = (Client(address=f"192.0.2.{number}") for number in (1, 2))


def chat(size: int) -> ChatRequest:
    return ask("x" * size)


def add(queue: Queue, request: Request, client: Client = ADA) -> Work:
    work = Work(request, lambda item: None, place=Place(client))
    queue.add(work)
    assert queue.arrive(work)
    return work


def take_all(queue: Queue) -> list[Work]:
    """All work that begins now."""
    return list(iter(queue.take, None))


@each("request_, size", [
    (chat(CHARACTERS * LONG_PROMPT - 1), 0),
    (chat(CHARACTERS * LONG_PROMPT), LONG_PROMPT),
    (ChatRequest(prompt="x" * 5000), 1250),
    (chat(CHARACTERS * (LONGEST + 1)), LONGEST),
    (ChatRequest((Message("user", (ImagePart(b"", "image/png"),)),)), PICTURE),
    (ChatRequest(prompt="x" * 5000, ahead=True), 0),
    (ChatRequest(prompt="x" * 5000, count="only"), 0),
    (ChatRequest(prompt="x" * 5000, tools=(Tool("f", "", "{}"),)), 1250),
    (SpeakRequest("x" * 5000), 0),
])  # fmt: skip
def test_the_size_of_a_prompt(request_: Request, size: int) -> None:
    assert size_of(Work(request_, lambda item: None)) == size


@each("tokens, size", [(LONG_PROMPT - 1, 0), (LONG_PROMPT, LONG_PROMPT), (LONGEST + 1, LONGEST + 1)])
def test_tokens_count_where_the_engine_has_counted_them(tokens: int, size: int) -> None:
    """Four prompts of 1,900 digits or tokens, or of 480 rare characters, were short, and all of them began."""
    work = Work(chat(1900), lambda item: None)
    work.prepared = Ready("one " * tokens)
    assert size_of(work) == size


def test_a_prompt_that_asks_for_the_whole_context_is_long() -> None:
    """Nobody has counted it: four of 1,900 digits that a smaller context did not hold began at once."""
    work = Work(chat(10), lambda item: None)
    assert work.ask_for_whole(ContextReduced("the context holds 512 tokens"))
    assert size_of(work) == LONGEST


def test_a_long_prompt_begins_once_the_one_before_it_was_read() -> None:
    """Each that began was under way, and kept other models out until all had been read and answered."""
    queue = Queue(threading.Condition(), lambda: 4)
    first, second, short = add(queue, chat(9000)), add(queue, chat(9000)), add(queue, chat(100))
    other = add(queue, chat(9000), BOB)
    assert set(take_all(queue)) == {first, short, other}
    assert not queue.waits()
    first.tell(PromptEvent(2000, 0, 500))
    first.tell(LoosenedEvent(("pattern",)))
    assert take_all(queue) == []
    first.tell(TokenEvent("a"))
    assert queue.waits()
    assert take_all(queue) == [second]


@pytest.mark.parametrize("unread", [False, True])
def test_a_prompt_behind_one_that_ends_without_a_word(unread: bool) -> None:
    """One whose reader has no room may not go on at all, and keeps no other program of its client waiting."""
    queue = Queue(threading.Condition(), lambda: 4)
    first, second = add(queue, chat(9000)), add(queue, chat(9000))
    assert take_all(queue) == [first]
    if unread:
        first.room = lambda: False
    else:
        assert queue.end(first)
    assert queue.waits()
    assert take_all(queue) == [second]


def test_an_unread_answer_keeps_the_others_of_its_request_waiting() -> None:
    """They have the same reader. All prompts of a list began behind the first answer that filled the mailbox."""
    queue = Queue(threading.Condition(), lambda: 4)
    works = [add(queue, chat(9000)) for _ in range(3)]
    first, second, other = works
    second.place = first.place
    first.room = lambda: False
    assert take_all(queue) == [first, other]
    first.tell(TokenEvent("a"))
    other.tell(TokenEvent("a"))
    assert take_all(queue) == [second]


def test_a_prompt_that_waits_for_one_of_its_client_takes_no_place_of_an_unread_answer() -> None:
    queue = Queue(threading.Condition(), lambda: 2)
    unread, first, second = add(queue, chat(10), BOB), add(queue, chat(9000)), add(queue, chat(9000))
    assert set(take_all(queue)) == {unread, first}
    assert not queue.claimed(unread)
    first.tell(TokenEvent("a"))
    assert queue.claimed(unread)
    assert take_all(queue) == [second]


@examples(200)
@given(st.lists(st.integers(CHARACTERS * LONG_PROMPT, 8 * LONGEST), min_size=1, max_size=30))
def test_a_client_keeps_others_from_an_engine_with_twice_its_longest_prompt_at_most(sizes: Sequence[int]) -> None:
    """However they are chosen: each that begins beside another is less than half of it. And each has its turn."""
    queue = Queue(threading.Condition(), lambda: 4)
    under_way: list[int] = []
    works = []
    for size in sizes:
        works.append(add(queue, chat(size)))
        under_way += [one.prompt for one in take_all(queue)]
    assert sum(under_way) < 2 * under_way[0]
    waiting = set(works)
    while waiting:
        reading = next(work for work in works if work in waiting)
        reading.tell(FinishEvent("stop", 1, 1))
        waiting.remove(reading)
        queue.end(reading)
        take_all(queue)
    assert not queue.waits()


def test_other_models_wait_for_one_long_prompt_of_a_client() -> None:
    """All four began and were read one after the other: another client's speech waited 97 s for them."""

    class Reading(FakeBatchChat):
        """Reads all prompts for as long as ``read`` is not set."""

        read = threading.Event()

        def run(self, request, cancel, prepared=None):  # type: ignore[no-untyped-def]
            while not self.read.is_set():
                yield None
            yield from super().run(request, cancel, prepared)

    engine, governor = Reading(fake_spec(slots=4)), CountingGovernor()
    gate, ended, done = gate_of(engine, governor), list[ContextEvent | Done](), threading.Event()
    gate.preload()
    works = [Work(chat(9000), ended.append, place=Place(ADA)) for _ in range(4)]
    quick = Work(chat(10), lambda item: None, place=Place(ADA), begun=lambda request: done.set())
    for work in (*works, quick):
        gate.acquire(None, ADA)
        gate.submit(work)
    assert done.wait(10)
    assert [work.place.running for work in works] == [1, 0, 0, 0]
    engine.read.set()
    until(lambda: sum(isinstance(one, Done) for one in ended) == 4)
    assert {one.error for one in ended if isinstance(one, Done)} == {None}
    gate.stop()
