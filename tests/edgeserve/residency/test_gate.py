"""The Ensure gate: one load however many wait, counted leases, bounded queue, and no step down under a lease."""

from __future__ import annotations

import logging
import math
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.contract import ask
from support.examples import examples
from support.gates import Clock, CountingGovernor, Held, Mailbox, engine_of, make_gate, run
from support.server import until

from edgeserve import logs
from edgeserve.engine import Rung
from edgeserve.errors import (
    Busy,
    Cancelled,
    DoesNotFit,
    EngineFailure,
    InvalidRequest,
    MemoryPressure,
    ShuttingDown,
)
from edgeserve.memory.resident import Moved, Refused
from edgeserve.memory.terms import NEW, Terms
from edgeserve.messages import ChatRequest, FinishEvent, SpeakRequest, TokenEvent
from edgeserve.residency.gate import Gate
from edgeserve.residency.work import Done, Work


def test_a_request_goes_up_the_ladder_and_runs(gates: Callable[..., Gate]) -> None:
    governor = CountingGovernor()
    gate = gates(governor=governor)
    events, error = run(gate, ask("one two"))
    assert error is None
    assert events == [TokenEvent("one"), TokenEvent(" two"), FinishEvent("stop", 2, 2)]
    assert gate.rung is Rung.HOT
    assert (governor.reserved, governor.settled, governor.released) == (1, 1, 1)


def test_one_load_however_many_wait(gates: Callable[..., Gate]) -> None:
    gate = gates(queue_limit=20)
    held = Held(engine_of(gate))
    boxes = [Mailbox() for _ in range(10)]
    for box in boxes:
        gate.acquire()
        gate.submit(box.work(ask("word")))
    held.go.set()
    for box in boxes:
        assert box.rest()[1] is None
        gate.release()
    assert engine_of(gate).steps == ["open", "heat"]


def test_a_full_queue_refuses_and_says_when_to_come_back(gates: Callable[..., Gate]) -> None:
    gate = gates(queue_limit=1)
    held = Held(engine_of(gate))
    boxes = [Mailbox(), Mailbox()]
    for box in boxes:
        gate.acquire()
        gate.submit(box.work(ask("word")))
    with pytest.raises(Busy, match="all 1 places") as caught:
        gate.acquire()
    assert caught.value.retry_after is not None
    assert caught.value.retry_after >= 1
    held.go.set()
    for box in boxes:
        box.rest()
        gate.release()
    gate.acquire()
    gate.release()


def test_a_lease_holds_the_engine_up_and_the_last_use_is_its_end(gates: Callable[..., Gate]) -> None:
    clock = Clock()
    gate = gates(clock=clock)
    gate.preload()
    gate.acquire()
    gate.acquire()
    assert gate.step_down(Rung.WARM) == Refused("leased")
    gate.release()
    assert gate.step_down(Rung.WARM) == Refused("leased")
    clock.now += 500
    gate.release()
    assert gate.last_used == clock.now
    assert isinstance(gate.step_down(Rung.WARM), Moved)
    assert gate.rung is Rung.WARM
    assert gate.step_down(Rung.WARM) == Refused("already there")
    assert isinstance(gate.step_down(Rung.COLD), Moved)
    assert gate.rung is Rung.COLD


def test_loads_by_hand_that_come_meanwhile_share_one(gates: Callable[..., Gate]) -> None:
    """Else requests would wait behind any number of loads that each wait for memory."""
    gate = gates()
    held = Held(engine_of(gate))
    loads = [gate.preload_in_turn() for _ in range(50)]
    held.go.set()
    assert [load.result(10) for load in loads] == [None] * 50
    assert len(set(loads)) == 1
    assert engine_of(gate).steps == ["open", "heat"]


class Full(CountingGovernor):
    """No memory for who cannot be cancelled by a request."""

    def __init__(self) -> None:
        super().__init__()
        self.waiting = threading.Event()

    def reserve(self, resident: Any, terms: Terms = NEW) -> Any:
        if isinstance(terms.cancel, threading.Event):
            return super().reserve(resident, terms)
        self.waiting.set()
        until(lambda: terms.cancel is not None and terms.cancel.is_set())
        raise Cancelled("the load was cancelled")


def test_a_load_by_hand_that_waits_for_memory_ends_with_its_gate(gates: Callable[..., Gate]) -> None:
    governor = Full()
    gate = gates(governor=governor)
    load = gate.preload_in_turn()
    assert governor.waiting.wait(10)
    assert gate.drain(math.inf)
    with pytest.raises(ShuttingDown, match="is being closed"):
        load.result(10)


def test_a_load_by_hand_that_waits_for_memory_gives_way_to_a_request(gates: Callable[..., Gate]) -> None:
    governor = Full()
    gate = gates(governor=governor)
    load = gate.preload_in_turn()
    assert governor.waiting.wait(10)
    assert run(gate, ask("word"))[1] is None
    with pytest.raises(Busy, match="waited for memory when a request came, which loads it now"):
        load.result(10)
    assert gate.preload_in_turn().result(10) is None


def test_work_that_is_cancelled_as_it_comes_ends_at_once(gates: Callable[..., Gate]) -> None:
    """One of several choices begins as another ends, while its client leaves."""
    gate = gates()
    held = Held(engine_of(gate))
    first, second = Mailbox(), Mailbox()
    gate.submit(first.work(ask("word")))
    assert held.entered.wait(10)
    late = second.work(ask("word"))
    gate.cancel(late)
    gate.submit(late)
    assert isinstance(second.rest(5)[1], Cancelled)
    assert len(gate.work) == 1
    held.go.set()
    assert first.rest()[1] is None


def test_a_step_down_never_waits_for_work(gates: Callable[..., Gate]) -> None:
    """Even when the client has gone and its lease with it, the worker's engine is left alone."""
    gate = gates()
    held = Held(engine_of(gate))
    box = Mailbox()
    gate.acquire()
    gate.submit(box.work(ask("word")))
    assert held.entered.wait(10)
    gate.release()
    assert gate.step_down(Rung.COLD) == Refused("at work")
    held.go.set()
    box.rest()


def test_work_cancelled_while_waiting_never_starts(gates: Callable[..., Gate]) -> None:
    gate = gates()
    events, error = run(gate, ask("word"), before=lambda work: work.cancel.set())
    assert events == []
    assert isinstance(error, Cancelled)
    assert gate.rung is Rung.COLD


def test_abort_tells_the_reason(gates: Callable[..., Gate]) -> None:
    gate = gates()
    held = Held(engine_of(gate))
    box = Mailbox()
    gate.acquire()
    gate.submit(box.work(ask("a b c")))
    assert held.entered.wait(10)
    gate.abort(ShuttingDown("the server is shutting down"))
    held.go.set()
    assert isinstance(box.rest()[1], ShuttingDown)
    gate.release()


def test_draining_refuses_new_leases_and_waits_for_the_old(gates: Callable[..., Gate]) -> None:
    clock = Clock()
    gate = gates(clock=clock)
    gate.acquire()
    assert not gate.drain(until=clock.now)
    with pytest.raises(ShuttingDown):
        gate.acquire()
    gate.release()
    assert gate.drain(until=clock.now)


@pytest.mark.parametrize("step", ["open", "heat", "run"])
def test_a_failure_closes_the_engine_and_the_next_request_opens_it(gates: Callable[..., Gate], step: str) -> None:
    gate = gates(options={"fail_on": step})
    _, error = run(gate, ask("word"))
    assert isinstance(error, EngineFailure)
    assert gate.rung is Rung.COLD
    engine_of(gate).spec.options.pop("fail_on")
    assert run(gate, ask("word"))[1] is None


def test_an_unforeseen_error_is_logged_and_told_without_its_type(
    gates: Callable[..., Gate], caplog: pytest.LogCaptureFixture
) -> None:
    gate = gates()

    def explode() -> None:
        raise ZeroDivisionError("boom")

    gate.preload()
    engine_of(gate).on_work = explode
    _, error = run(gate, ask("word"))
    assert isinstance(error, EngineFailure)
    assert error.message == "fake-llm failed on this request: boom"
    assert "ZeroDivisionError" in caplog.text


def test_a_bad_request_leaves_the_engine_hot(gates: Callable[..., Gate]) -> None:
    gate = gates("tts")
    _, error = run(gate, SpeakRequest("hello", voice="nobody"))
    assert isinstance(error, InvalidRequest)
    assert gate.rung is Rung.HOT


def test_what_does_not_fit_is_refused_before_the_ladder(gates: Callable[..., Gate]) -> None:
    gate = gates(governor=CountingGovernor(refuse=DoesNotFit("too big")))
    assert isinstance(run(gate, ask("word"))[1], DoesNotFit)
    assert gate.rung is Rung.COLD


def test_the_pressure_is_checked_every_16_events(gates: Callable[..., Gate]) -> None:
    governor = CountingGovernor()
    run(gates(governor=governor), ask(" ".join(["word"] * 40)))
    assert governor.checks == 2


def test_a_stopped_run_is_closed_before_its_reader_hears_of_it(gates: Callable[..., Gate]) -> None:
    """The run frees its memory in the runtime while the host holds the engine, not when the error is forgotten."""
    ended = threading.Event()

    def endless(request: Any, cancel: Any) -> Iterator[TokenEvent]:
        try:
            while True:
                yield TokenEvent("on")
        finally:
            ended.set()

    class Critical(CountingGovernor):
        def check(self) -> None:
            raise MemoryPressure("critical")

    gate = gates(governor=Critical())
    engine_of(gate).chat = endless
    told: queue.SimpleQueue[bool] = queue.SimpleQueue()
    gate.acquire()
    gate.submit(Work(ask("word"), lambda item: told.put(ended.is_set()) if isinstance(item, Done) else None))
    assert told.get(timeout=10)
    gate.release()


def test_leases_take_the_places_whatever_their_work_does(gates: Callable[..., Gate]) -> None:
    """A client that comes, asks and goes again and again fills no more than its places."""
    gate = gates(queue_limit=2)
    held = Held(engine_of(gate))
    box = Mailbox()
    gate.acquire()
    gate.submit(box.work(ask("word")))
    assert held.entered.wait(10)
    for _ in range(20):
        gate.acquire()
        waiting = Mailbox()
        work = waiting.work(ask("gone"))
        gate.submit(work)
        gate.cancel(work)
        assert isinstance(waiting.rest()[1], Cancelled), "told at once, while the engine is at work"
        gate.release()
    assert len(gate.work) == 1
    held.go.set()
    assert box.rest()[1] is None


class Waiting(CountingGovernor):
    """Makes a reservation wait until its request is cancelled."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = threading.Event()

    def reserve(self, resident: Any, terms: Terms = NEW) -> Any:
        self.asked.set()
        assert isinstance(terms.cancel, threading.Event)
        assert terms.cancel.wait(10)
        raise Cancelled("the request was cancelled while it waited for memory")


def test_a_request_that_waits_for_memory_ends_with_its_client_and_loads_nothing(gates: Callable[..., Gate]) -> None:
    governor = Waiting()
    gate = gates(governor=governor)
    box = Mailbox()
    gate.acquire()
    work = box.work(ask("word"))
    gate.submit(work)
    assert governor.asked.wait(10)
    gate.cancel(work)
    assert isinstance(box.rest()[1], Cancelled)
    gate.release()
    assert gate.rung is Rung.COLD
    assert gate.drain(time.monotonic())


def test_work_that_an_abort_finds_in_a_wait_tells_its_reason(gates: Callable[..., Gate]) -> None:
    """The wait itself, for memory or for a slot, knows only that the request was cancelled."""
    governor = Waiting()
    gate = gates(governor=governor)
    box = Mailbox()
    gate.acquire()
    gate.submit(box.work(ask("word")))
    assert governor.asked.wait(10)
    gate.abort(ShuttingDown("the server is shutting down"))
    assert isinstance(box.rest()[1], ShuttingDown)
    gate.release()


def test_a_request_cancelled_on_the_way_up_does_not_run_and_gives_its_memory_back(gates: Callable[..., Gate]) -> None:
    governor = CountingGovernor()
    gate = gates(governor=governor)
    held = Held(engine_of(gate))
    box = Mailbox()
    gate.acquire()
    work = box.work(ask("word"))
    gate.submit(work)
    assert held.entered.wait(10), "opening"
    gate.cancel(work)
    held.go.set()
    assert isinstance(box.rest()[1], Cancelled)
    gate.release()
    assert (governor.reserved, governor.released) == (1, 1)


class Leaving(CountingGovernor):
    """The client leaves as its request is looked at, while memory is reserved, or when the engine is hot."""

    def __init__(self, when: str) -> None:
        super().__init__()
        self.when, self.work = when, Work(ask("word"), lambda item: None)

    def leave(self, when: str) -> None:
        if when == self.when:
            self.work.abort(Cancelled("the client left"))

    def reserve(self, resident: Any, terms: Terms = NEW) -> Any:
        reservation = super().reserve(resident, terms)
        self.leave("reserved")
        return reservation

    def settle(self, reservation: object) -> None:
        super().settle(reservation)
        self.leave("hot")


@pytest.mark.parametrize(
    ("when", "reserved", "rung"), [("looked at", 0, Rung.COLD), ("reserved", 1, Rung.COLD), ("hot", 1, Rung.HOT)]
)
def test_between_any_two_steps_a_client_that_left_costs_nobody_the_next(
    gates: Callable[..., Gate], monkeypatch: pytest.MonkeyPatch, when: str, reserved: int, rung: Rung
) -> None:
    """It used to load and evict, and a reservation leaked where the client left between two looks."""
    governor, begun = Leaving(when), []
    gate = gates(governor=governor)
    monkeypatch.setattr(gate.host, "check_kind", lambda request: governor.leave("looked at"))
    box = Mailbox()
    gate.acquire()
    governor.work = box.work(ask("word"))
    governor.work.begun = begun.append
    gate.submit(governor.work)
    events, error = box.rest()
    assert (events, type(error), begun) == ([], Cancelled, [])
    gate.release()
    assert governor.reserved == governor.released == reserved
    assert gate.rung is rung


def test_map_ends_warm_and_reserves_nothing(gates: Callable[..., Gate]) -> None:
    governor = CountingGovernor()
    gate = gates(governor=governor)
    gate.map()
    assert gate.rung is Rung.WARM
    assert governor.reserved == 0


def test_the_worker_logs_under_the_id_of_the_request(gates: Callable[..., Gate]) -> None:
    seen: list[str] = []

    class Handler(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            seen.append(logs.request_id.get())

    logger = logging.getLogger("edgeserve.gate")
    handler, level = Handler(), logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    token = logs.request_id.set("req-7")
    try:
        run(gates(), ask("word"))
    finally:
        logs.request_id.reset(token)
        logger.removeHandler(handler)
        logger.setLevel(level)
    assert seen == ["req-7"]


class GateMachine(RuleBasedStateMachine):
    """Leases, work and steps in any order: the rung, the counts and the engine never disagree."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = Clock()
        self.governor = CountingGovernor()
        self.gate = make_gate(governor=self.governor, clock=self.clock)
        self.leases = 0

    def teardown(self) -> None:
        self.gate.stop()
        assert self.gate.rung is Rung.COLD

    @precondition(lambda self: self.leases < 9)
    @rule()
    def acquire(self) -> None:
        self.gate.acquire()
        self.leases += 1

    @precondition(lambda self: self.leases)
    @rule()
    def release(self) -> None:
        self.clock.now += 1
        self.gate.release()
        self.leases -= 1
        assert self.gate.last_used == self.clock.now

    @precondition(lambda self: self.leases)
    @rule(cancelled=st.booleans())
    def work(self, cancelled: bool) -> None:
        box = Mailbox()
        work = box.work(ChatRequest(prompt="one two three"))
        if cancelled:
            work.cancel.set()
        self.gate.submit(work)
        _, error = box.rest()
        assert isinstance(error, Cancelled) is cancelled

    @rule(to=st.sampled_from([Rung.WARM, Rung.COLD]))
    def step_down(self, to: Rung) -> None:
        # The worker may still be on its way out of the engine; a refusal is then right, too.
        before = self.gate.rung
        moved = isinstance(self.gate.step_down(to), Moved)
        if self.leases:
            assert not moved
            assert self.gate.rung is before
        elif moved:
            assert self.gate.rung <= to

    @invariant()
    def steps_alternate(self) -> None:
        steps: list[str] = engine_of(self.gate).steps
        rung = Rung.COLD
        for step in steps:
            expected = {"open": (0, 1), "heat": (1, 2), "park": (2, 1), "close": (rung, 0)}[step]
            assert rung == expected[0], f"{step} from {rung.name}: {steps}"
            rung = Rung(expected[1])
        assert rung is self.gate.rung

    @invariant()
    def books_balance(self) -> None:
        assert self.gate.leases == self.leases
        assert self.governor.released <= self.governor.reserved


TestGateMachine = GateMachine.TestCase
TestGateMachine.settings = examples(60, stateful_step_count=20)


def test_a_gate_that_is_closed_loads_nothing_more(gates: Callable[..., Gate]) -> None:
    gate = gates()
    assert gate.drain(0.0)
    for load in (gate.preload_in_turn, gate.map):
        with pytest.raises(ShuttingDown, match="llm is being closed"):
            load()
    gate.warm_up()
    assert (gate.rung, engine_of(gate).steps) == (Rung.COLD, [])


def test_a_gate_that_is_closed_while_it_is_mapped_is_cold_at_the_end(gates: Callable[..., Gate]) -> None:
    gate = gates()
    engine_of(gate).on_work = lambda: gate.drain(0.0)
    gate.map()
    assert gate.rung is Rung.COLD
