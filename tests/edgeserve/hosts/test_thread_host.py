"""The host on threads of the serving process: the suite of all hosts, and its threads."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.gates import CountingGovernor, Held, engine_of, fake_spec, gate_of
from support.hosts import BATCH, PREPARING, Asked, HostContract, Pipe
from support.server import until

from edgeserve.clients import Idle
from edgeserve.engine import Cancel, ModelSpec
from edgeserve.engines.fake.chat import FakeBatchChat
from edgeserve.errors import Busy, EngineFailure
from edgeserve.hosts.abilities import Abilities
from edgeserve.hosts.engine_host import EngineHost
from edgeserve.hosts.loop import BatchLoop
from edgeserve.hosts.run import Ended
from edgeserve.hosts.runs import Runs
from edgeserve.hosts.thread_host import ThreadHost
from edgeserve.hosts.worker import Worker
from edgeserve.messages import AudioEvent, SpeakRequest
from edgeserve.named import make_engine
from edgeserve.residency.gate import Gate
from edgeserve.residency.host import Pressure
from edgeserve.residency.turns import Turns
from edgeserve.residency.work import Admitted
from edgeserve.system import growth


def make(spec: ModelSpec, pressure: Pressure, clock: Callable[[], float], idle_after: float) -> ThreadHost:
    return ThreadHost(make_engine(spec), pressure, clock=clock, idle_after=idle_after)


def die() -> None:
    raise SystemExit


class TestThreadHost(HostContract):
    make = staticmethod(make)

    def test_a_host_without_work_has_no_thread(self) -> None:
        before = set(threading.enumerate())
        host = self.host()
        assert host.healthy
        host.stop()
        assert set(threading.enumerate()) <= before

    def test_requests_reach_the_engine_prepared(self) -> None:
        gate = self.gate(PREPARING)
        assert Asked(gate, "word").text() == "word"
        assert engine_of(gate).prepared_early == 1

    def test_a_preparation_counts_as_work_beside_a_way_up(self) -> None:
        gate, pipe = self.gate(PREPARING), Pipe(self.folder, "prepare")
        asked = Asked(gate, "word")
        with pipe.reached():
            assert growth.others.mark() is None
        assert asked.text() == "word"

    def test_a_round_asks_for_a_request_only_while_one_waits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """A round comes with each token."""
        asked: list[bool] = []
        admit = Turns.admit

        def counted(turns: Turns, beside: bool, newcomer: Idle | None = None) -> Admitted | None:
            asked.append(beside)
            return admit(turns, beside, newcomer)

        monkeypatch.setattr(Turns, "admit", counted)
        words = "word " * 50
        assert Asked(self.gate(BATCH, slots=2), words).text() == words.strip()
        assert asked == [False]

    def test_requests_to_an_engine_that_never_rests_leave_nothing_behind(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each left a task for the worker, which kept them all until no answer was under way."""
        tasks: list[object] = []
        put = Worker.put

        def counted(worker: Worker, task: Callable[[], None]) -> None:
            tasks.append(task)
            put(worker, task)

        monkeypatch.setattr(Worker, "put", counted)
        gate = self.gate(BATCH, slots=2)
        held = Held(engine_of(gate))
        first = Asked(gate, "word")
        assert held.entered.wait(10)
        others = [Asked(gate, "word") for _ in range(9)]
        held.go.set()
        assert [one.text() for one in (first, *others)] == ["word"] * 10
        assert len(tasks) == 2

    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_a_host_that_lost_its_thread_is_not_healthy(self) -> None:
        host = self.host()
        host.call(die)
        until(lambda: not host.healthy)

    def test_an_engine_that_failed_begins_nothing_until_it_was_closed(self) -> None:
        """Requests that take turns without a gap would keep a broken engine open."""
        gate = self.gate("engine:FakeTextToSpeech", "tts", slots=2)
        engine, said, ending = engine_of(gate), list[str](), threading.Event()

        def speak(request: SpeakRequest, cancel: Cancel) -> Iterator[AudioEvent | None]:
            if request.text == "bad":
                raise EngineFailure("broken")
            if request.text == "long":
                yield AudioEvent(b"", 24_000)
                while not ending.is_set():
                    yield None
                yield from [None] * 3
            said.append(request.text)

        def close() -> None:
            said.append("closed")
            type(engine).close(engine)

        engine.speak, engine.close = speak, close
        long = Asked(gate, SpeakRequest("long"))
        long.first()
        with pytest.raises(EngineFailure, match="broken"):
            Asked(gate, SpeakRequest("bad")).rest()
        after = Asked(gate, SpeakRequest("after"))
        ending.set()
        long.rest()
        after.rest()
        assert said == ["long", "closed", "after"]

    def test_a_host_without_a_thread_is_busy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def refuse(self: threading.Thread) -> None:
            raise RuntimeError("can't start new thread")

        host = self.host(BATCH)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(Busy, match="no thread can be started"):
                host.call(lambda: None)
        host.call(lambda: None).result(10)
        assert host.healthy


def test_a_fault_of_the_server_in_a_round_ends_its_answers_and_nothing_else() -> None:
    """A reader that was told nothing would wait for ever, and so would the requests behind it."""

    class Faulty(BatchLoop):
        faults = 1

        def turn(self) -> list[Ended]:
            if len(self.runs) == 2 and self.faults:
                self.faults -= 1
                raise KeyError("of the server itself")
            return super().turn()

    engine: Any = FakeBatchChat(fake_spec("llm", slots=2))
    governor: Any = CountingGovernor()
    loop = Faulty(engine, Runs(governor.check, time.monotonic))
    gate = Gate(EngineHost(engine, Abilities.of(engine), loop, governor, idle_work=False), governor)
    gate.preload()
    held = Held(engine)
    asked = [Asked(gate, "one two three")]
    assert held.entered.wait(60)
    asked.append(Asked(gate, "one two three"))  # which joins in the next round
    held.go.set()
    for one in asked:
        with pytest.raises(EngineFailure, match="of the server itself"):
            one.rest()
    assert Asked(gate, "word").text() == "word"
    assert governor.released == governor.reserved
    assert gate.host.healthy
    gate.stop()


def test_an_answer_that_cannot_begin_gives_its_memory_back() -> None:
    engine: Any = FakeBatchChat(fake_spec("llm", slots=2))
    governor: Any = CountingGovernor()
    gate = gate_of(engine, governor)
    run, engine.run = engine.run, None  # it cannot be called
    with pytest.raises(EngineFailure):
        Asked(gate, "word").rest()
    assert governor.released == governor.reserved == 1
    engine.run = run
    assert Asked(gate, "word").text() == "word"
    gate.stop()
