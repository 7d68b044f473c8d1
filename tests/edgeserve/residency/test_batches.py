"""Several answers at a time through one gate: each is complete, and none disturbs another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each
from support.contract import ask
from support.examples import examples
from support.gates import Clock, CountingGovernor, Held, Mailbox, engine_of, fake_spec, gate_of, run
from support.server import lower, until

from edgeserve.clients import NOBODY, Client
from edgeserve.engine import Rung
from edgeserve.engines.fake.chat import FakeBatchChat, FakeChat
from edgeserve.errors import (
    Busy,
    Cancelled,
    DoesNotFit,
    EngineFailure,
    InvalidRequest,
    MemoryPressure,
)
from edgeserve.memory.resident import Refused
from edgeserve.messages import EmbedRequest, TokenEvent
from edgeserve.residency.gate import Gate
from edgeserve.residency.host import PATIENCE
from edgeserve.residency.rounds import Place
from edgeserve.residency.work import Work

Make = Callable[..., Gate]


@pytest.fixture
def gates() -> Iterator[Make]:
    made: list[Gate] = []

    def make(
        governor: Any = None,
        *,
        queue_limit: int = 8,
        idle_after: float = 0.3,
        clock: Callable[[], float] = time.monotonic,
        **options: Any,
    ) -> Gate:
        engine = FakeBatchChat(fake_spec("llm", **options))
        gate = gate_of(engine, governor, queue_limit=queue_limit, idle_after=idle_after, clock=clock)
        made.append(gate)
        return gate

    yield make
    for gate in made:
        gate.stop()


def submit(gate: Gate, text: str, client: Client = NOBODY) -> tuple[Mailbox, Work]:
    box = Mailbox()
    gate.acquire()
    work = box.work(ask(text))
    work.place = Place(client)
    gate.submit(work)
    return box, work


def texts(events: list[Any]) -> str:
    return "".join(event.text for event in events if isinstance(event, TokenEvent))


def test_answers_are_made_together_as_many_as_there_are_slots(gates: Make) -> None:
    governor = CountingGovernor()
    gate = gates(governor, slots=3)
    held = Held(engine_of(gate))
    asked = [submit(gate, f"this is request {number}") for number in range(7)]
    held.go.set()
    for number, (box, _) in enumerate(asked):
        events, error = box.rest()
        assert error is None
        assert texts(events) == f"this is request {number}"
        gate.release()
    assert engine_of(gate).peak == 3
    assert engine_of(gate).steps == ["open", "heat"]
    assert governor.reserved == governor.released == 7


FATES = ("well", "raises", "raises late", "engine failure", "refuses", "refuses to close", "cancelled", "slow")
ERRORS = {
    "raises": ZeroDivisionError,
    "raises late": RecursionError,
    "engine failure": EngineFailure,
    "refuses": InvalidRequest,
}


def fated(request: Any, answer: Iterator[Any]) -> Iterator[Any]:
    """The answer, with the end that the prompt's first words name."""
    fate = request.messages[-1].text.rpartition(":")[0]
    try:
        if fate in ("raises", "engine failure", "refuses"):
            raise ERRORS[fate]("of this answer")
        yield from answer
        if fate == "raises late":
            raise ERRORS[fate]("of this answer")
    finally:
        if fate == "refuses to close":
            raise OverflowError("while it was closed")


class Batched(FakeBatchChat):
    def run(self, request: Any, cancel: Any, prepared: object | None = None) -> Any:
        return fated(request, super().run(request, cancel, prepared))


class Alone(FakeChat):
    def chat(self, request: Any, cancel: Any) -> Any:
        return fated(request, super().chat(request, cancel))


@examples(60)
@given(fates=st.lists(st.sampled_from(FATES), min_size=1, max_size=10), slots=st.integers(1, 4), batches=st.booleans())
def test_the_end_of_one_answer_leaves_the_others_alone(fates: list[str], slots: int, batches: bool) -> None:
    if batches:  # paused answers keep their slots for a while: leave the others one
        fates = [
            fate for number, fate in enumerate(fates) if fate != "slow" or fates[:number].count("slow") < slots - 1
        ]
    governor = CountingGovernor()
    engine = Batched(fake_spec("llm", slots=slots)) if batches else Alone(fake_spec("llm"))
    gate = gate_of(engine, governor, queue_limit=20)
    open_readers = threading.Event()
    asked: list[tuple[str, Mailbox, Work]] = []
    try:
        for number, fate in enumerate(fates):
            box = Mailbox()
            work = box.work(ask(f"{fate}: this is answer number {number}"))
            if fate == "slow":
                work.room = open_readers.is_set
            gate.acquire()
            gate.submit(work)
            if fate == "cancelled":
                gate.cancel(work)
            asked.append((fate, box, work))
        for fate, box, _ in asked:
            if fate != "slow":
                check_end(fate, box)
        open_readers.set()
        gate.wake()
        for fate, box, _ in asked:
            if fate == "slow":
                check_end(fate, box)
        assert run(gate, ask("after all"))[1] is None
        assert gate.host.healthy
    finally:
        gate.stop()
    assert governor.reserved == governor.released
    assert not gate.work


def check_end(fate: str, box: Mailbox) -> None:
    events, error = box.rest()
    if fate in ("well", "slow"):
        assert error is None
        assert texts(events).startswith(f"{fate}: this is answer")
    elif fate == "cancelled":
        assert isinstance(error, Cancelled | None)
    elif fate != "refuses to close":
        assert isinstance(error, InvalidRequest if fate == "refuses" else EngineFailure)
        assert "of this answer" in error.message


def test_places_are_counted_beyond_the_slots(gates: Make) -> None:
    gate = gates(slots=2, queue_limit=1)
    held = Held(engine_of(gate))
    asked = [submit(gate, "word") for _ in range(3)]
    with pytest.raises(Busy, match="2 requests run and all 1 places"):
        gate.acquire()
    held.go.set()
    for box, _ in asked:
        assert box.rest()[1] is None
        gate.release()


def test_vectors_are_made_beside_answers(gates: Make) -> None:
    gate = gates(slots=2)
    held = Held(engine_of(gate))
    answer, _ = submit(gate, "a b c")
    vectors = Mailbox()
    gate.acquire()
    gate.submit(vectors.work(EmbedRequest(("one two", "three"))))
    held.go.set()
    assert texts(answer.rest()[0]) == "a b c"
    events, error = vectors.rest()
    assert error is None
    assert [event.tokens for event in events] == [2, 1]
    assert engine_of(gate).peak == 2


@each(("beside", "places"), [(1, 0), (4, 2)])
def test_the_networks_of_one_key_keep_no_other_key_out(gates: Make, beside: int, places: int) -> None:
    """They had all places beside the slots, as long as their answers took."""
    gate = gates(slots=2, beside=beside, queue_limit=16, context=1_000_000)
    mine = [submit(gate, "word " * 100_000, Client("mine", "10.0.0.0"))[1] for _ in range(2)]
    until(lambda: all(work.started is not None for work in mine))
    mine += [submit(gate, "word " * 100_000, Client("mine", f"10.0.0.{one}"))[1] for one in range(1, 2 * beside)]
    until(lambda: sum(work.started is not None for work in mine) == 2 + places)
    for key in "abcd"[: beside - places]:
        box, _ = submit(gate, "one two", Client(key, "10.0.0.1"))
        events, error = box.rest()
        assert (texts(events), error) == ("one two", None)
    assert len(gate.work) == len(mine), "all answers of the key are under way, or wait"
    assert sum(work.started is not None for work in mine) == 2 + places
    for work in mine:
        gate.cancel(work)


def test_a_refused_request_leaves_nothing_reserved(gates: Make) -> None:
    governor = CountingGovernor(refuse=DoesNotFit("too large"))
    gate = gates(governor)
    assert isinstance(run(gate, ask("word"))[1], DoesNotFit)
    governor.refuse = None
    assert run(gate, ask("word"))[1] is None


class Tight(CountingGovernor):
    """Has memory for one request at a time."""

    def reserve_at_once(self, resident: Any, whole: bool = False) -> object | None:
        return None


def test_a_request_without_memory_waits_until_the_answers_under_way_end(gates: Make) -> None:
    gate = gates(Tight())
    held = Held(engine_of(gate))
    asked = [submit(gate, "a b") for _ in range(3)]
    held.go.set()
    for box, _ in asked:
        assert box.rest()[1] is None
    assert engine_of(gate).peak == 1


def test_a_failing_step_ends_all_and_the_next_request_opens_the_engine_anew(gates: Make) -> None:
    gate = gates()
    held = Held(engine_of(gate))
    asked = [submit(gate, "a b") for _ in range(3)]
    assert held.entered.wait(10)

    def fail() -> None:
        raise EngineFailure("the runtime gave up")

    engine_of(gate).step = fail
    held.go.set()
    for box, _ in asked:
        error = box.rest()[1]
        assert isinstance(error, EngineFailure)
        assert "gave up" in error.message
        gate.release()
    until(lambda: gate.rung is Rung.COLD)
    del engine_of(gate).step
    assert run(gate, ask("word"))[1] is None


def test_an_answer_that_memory_pressure_stops_leaves_the_others_alone(gates: Make) -> None:
    class Once(CountingGovernor):
        def check(self) -> None:
            super().check()
            if self.checks == 1:
                raise MemoryPressure("memory ran critical")

    gate = gates(Once(), slots=2)
    held = Held(engine_of(gate))
    long, short = submit(gate, " ".join(["word"] * 40))[0], submit(gate, "only three words")[0]
    held.go.set()
    assert isinstance(long.rest()[1], MemoryPressure)
    events, error = short.rest()
    assert (texts(events), error) == ("only three words", None)


def test_the_engine_is_not_moved_while_it_answers_and_can_be_after(gates: Make) -> None:
    gate = gates()
    held = Held(engine_of(gate))
    box, _ = submit(gate, "word")
    assert held.entered.wait(10)
    gate.release()  # the client has gone
    assert gate.step_down(Rung.COLD) == Refused("at work")
    held.go.set()
    box.rest()
    gate.host.call(lambda: None).result(10)
    lower(gate, Rung.COLD)


def test_idle_work_follows_the_last_answer_and_gives_way_to_the_next(gates: Make) -> None:
    gate, resting, go = gates(idle_after=0.0), threading.Semaphore(0), threading.Semaphore(0)
    steps: list[int] = []

    def idle_work() -> Iterator[None]:
        for step in range(3):
            steps.append(step)
            resting.release()
            assert go.acquire(timeout=10)
            yield

    engine_of(gate).idle_work = idle_work
    assert run(gate, ask("one"))[1] is None
    assert resting.acquire(timeout=10)
    box, _ = submit(gate, "two")
    go.release()
    assert texts(box.rest()[0]) == "two"
    assert resting.acquire(timeout=10)
    assert steps == [0, 0]
    go.release(3)


def test_the_next_request_of_a_greedy_client_cuts_its_own_slow_reader(gates: Make) -> None:
    """The oldest unread answer was cut for it: that of a client with this one alone."""
    clock = Clock()
    gate = gates(clock=clock, slots=3)
    bob, ada = Client("bob"), Client("ada")

    def submit_unread(client: Client) -> Work:
        work = Work(ask("one two"), lambda item: None, lambda: False, place=Place(client))
        gate.acquire(None, client)
        gate.submit(work)
        return work

    slow = submit_unread(bob)
    until(lambda: len(gate.host.unread(0.0)) == 1)
    clock.now += PATIENCE / 2
    greedy = [submit_unread(ada), submit_unread(ada)]
    until(lambda: len(gate.host.unread(0.0)) == 3)
    clock.now += PATIENCE
    waiting = submit_unread(ada)
    until(lambda: waiting.started is not None)
    assert not slow.cancel.is_set()
    assert sorted(one.cancel.is_set() for one in greedy) == [False, True]
    submit_unread(Client("cleo"))
    until(lambda: slow.cancel.is_set())
