"""The host with a worker process: the suite of all hosts, and the deaths of a worker."""

from __future__ import annotations

import contextlib
import gc
import math
import os
import signal
import threading
from collections.abc import Callable, Iterator
from typing import cast
from unittest.mock import Mock

import pytest
from support.contract import ask
from support.hosts import PREPARING, SERIAL, Asked, HostContract, Pipe, every
from support.server import lower, until

from edgeserve.engine import ModelSpec, Rung
from edgeserve.errors import Cancelled, EngineFailure, Restarting
from edgeserve.hosts import link, watch
from edgeserve.hosts.process_host import ProcessHost, RemoteLoop
from edgeserve.hosts.runs import Runs
from edgeserve.hosts.steps import WORKER
from edgeserve.messages import ChatEvent, ChatRequest, Message, ReadEvent, TextEvent, TextPart, TextRequest, TokenEvent
from edgeserve.named import make_engine
from edgeserve.processes import child
from edgeserve.processes.launcher import Launcher, make_launcher
from edgeserve.residency.gate import Gate
from edgeserve.residency.host import Pressure
from edgeserve.residency.weight import WINDOW, weigh
from edgeserve.residency.work import Admitted, Work
from edgeserve.units import KB


class TestProcessHost(HostContract):
    HOME_BYTES = WORKER
    launcher: Launcher

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def _launcher(cls) -> Iterator[None]:
        cls.launcher = make_launcher(["edgeserve.hosts.worker_entry", "edgeserve.engines.fake.chat"])
        yield
        cls.launcher.stop()

    @classmethod
    def make(cls, spec: ModelSpec, pressure: Pressure, clock: Callable[[], float], idle_after: float) -> ProcessHost:
        return ProcessHost(make_engine(spec), cls.launcher, pressure, clock=clock, idle_after=idle_after)

    # Deaths

    def worker(self, gate: Gate) -> int:
        """The pid of the engine's process."""
        pid = cast(ProcessHost, gate.host).pid
        assert pid is not None
        return pid

    @pytest.mark.parametrize(
        "number",
        [signal.SIGKILL, *(pytest.param(one, marks=pytest.mark.slow) for one in (signal.SIGSEGV, signal.SIGABRT))],
    )
    @every
    def test_a_worker_that_is_killed_ends_its_answers_and_starts_again(self, kind: str, number: signal.Signals) -> None:
        gate, pipe = self.gate(kind), Pipe(self.folder, "word")
        asked = [Asked(gate, "one two three") for _ in range(2)]
        with pipe.reached():
            until(lambda: len(cast(ProcessHost, gate.host)._loop.runs) == min(len(asked), gate.host.slots))
            os.kill(self.worker(gate), number)
            for one in asked[: gate.host.slots]:
                with pytest.raises(EngineFailure, match=f"was ended by {number.name}.*starts it again"):
                    one.rest()
        for one in asked[gate.host.slots :]:
            assert one.text() == "one two three"
        assert Asked(gate, "next").text() == "next"
        assert gate.host.healthy
        assert self.governor.outgrown == (["fake-llm"] if number == signal.SIGKILL else [])
        assert self.governor.deaths == [("fake-llm", -number)]

    def test_a_request_that_was_prepared_before_a_step_down_is_answered_after_it(self) -> None:
        host = cast(ProcessHost, self.host(PREPARING))
        with host.hold():
            host.climb(Rung.HOT)
            prepared = host.remote.prepare(ask("one two"))
            assert prepared.prompt_tokens == 2
            host.step_down(Rung.WARM)  # by the keep_alive of an earlier request
            host.climb(Rung.HOT)
            events = [one for one in host.remote.run(ask("one"), threading.Event(), prepared) if one is not None]
        assert events[0] == TokenEvent("one")

    def test_a_prepared_request_that_cannot_be_sent_is_forgotten(self, monkeypatch: pytest.MonkeyPatch) -> None:
        host = cast(ProcessHost, self.host(PREPARING))
        forgotten: list[int] = []
        with host.hold():
            host.climb(Rung.HOT)
            prepared = host.remote.prepare(ask("one"))
            number = prepared.number
            monkeypatch.setattr(link.Link, "begin", Mock(side_effect=MemoryError))
            monkeypatch.setattr(link.Link, "forget", lambda _, number: forgotten.append(number))
            with pytest.raises(MemoryError):
                next(host.remote.run(ask("one"), threading.Event(), prepared))
            del prepared
        assert forgotten == [number]

    @every
    def test_a_worker_that_aborts_ends_its_answers(self, kind: str) -> None:
        gate = self.gate(kind, abort_word="bad")
        with pytest.raises(EngineFailure, match="SIGABRT"):
            Asked(gate, "one bad two").rest()
        until(lambda: gate.rung is Rung.COLD)
        assert Asked(gate, "next").text() == "next"

    def test_a_worker_that_hangs_is_killed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(link, "LOOK_AGAIN", 0.01)
        gate = self.gate(stop_word="bad")
        asked = Asked(gate, "one bad two")
        assert asked.first() == TokenEvent("one")
        self.clock.now += watch.HANG + 1
        with pytest.raises(EngineFailure, match="was ended, because it has given no sign of life for 30 s"):
            asked.rest()
        assert Asked(gate, "next").text() == "next"
        assert self.governor.outgrown == []  # the host has killed it itself
        assert self.governor.deaths == [("fake-llm", None)]

    def test_a_worker_that_was_idle_for_long_is_no_worker_that_hangs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(link, "LOOK_AGAIN", 0.01)
        gate = self.gate(SERIAL)
        assert Asked(gate, "word").text() == "word"
        pid = self.worker(gate)
        os.kill(pid, signal.SIGSTOP)  # as on a machine that has no time for it at once
        self.clock.now += watch.HANG + 1
        looks: list[float] = []
        monkeypatch.setattr(type(self.clock), "__call__", lambda clock: looks.append(clock.now) or clock.now)
        asked = Asked(gate, "next")
        until(lambda: len(looks) > 20)
        os.kill(pid, signal.SIGCONT)
        assert asked.text() == "next"
        assert self.worker(gate) == pid

    @pytest.mark.slow
    def test_a_worker_that_prepares_for_long_is_no_worker_that_hangs(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Its engine is idle meanwhile."""
        monkeypatch.setattr(link, "LOOK_AGAIN", 0.3)
        looks: list[str | None] = []
        look = watch.Watch.look
        monkeypatch.setattr(watch.Watch, "look", lambda one, patience: looks.append(look(one, patience)) or looks[-1])
        gate = self.gate(PREPARING, idle_after=1000.0)
        assert Asked(gate, "word").text() == "word"
        pid, pipe = self.worker(gate), Pipe(self.folder, "prepare")
        asked = Asked(gate, "next")
        with pipe.reached():
            until(lambda: len(looks) > 2)  # the worker has told its last figures
            self.clock.now += watch.HANG + 1
            until(lambda: len(looks) > watch.LOOKS + 5)
        assert asked.text() == "next"
        assert self.worker(gate) == pid
        assert not any(looks)

    def test_a_worker_that_hangs_at_its_end_is_killed_soon(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(link, "LOOK_AGAIN", 0.01)
        gate = self.gate(SERIAL)
        assert Asked(gate, "word").text() == "word"
        pid = self.worker(gate)
        os.kill(pid, signal.SIGSTOP)
        looks: list[float] = []
        monkeypatch.setattr(type(self.clock), "__call__", lambda clock: looks.append(clock.now) or clock.now)
        closing = threading.Thread(target=gate.stop, daemon=True)
        closing.start()
        until(lambda: len(looks) > 20)
        self.clock.now += child.STOP_SECONDS + 1
        closing.join(10)
        try:
            assert not closing.is_alive()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
        assert gate.rung is Rung.COLD

    def test_answers_that_were_given_up_leave_nothing_behind(self) -> None:
        gate = self.gate(delay=0.005)
        for _ in range(5):
            asked = Asked(gate, "word " * 1000)
            asked.first()
            gate.cancel(asked.work)
            with pytest.raises(Cancelled):
                asked.rest()
            del asked
        assert Asked(gate, "next").text() == "next"  # so that the worker has told the ends of all before
        gc.collect()
        assert [one for one in gc.get_objects() if isinstance(one, Cancelled)] == []

    def test_a_worker_that_makes_no_progress_is_killed(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """It sends pulses all the while."""
        monkeypatch.setattr(link, "LOOK_AGAIN", 0.01)
        monkeypatch.setattr(watch, "STUCK", 15.0)
        for module in (link, watch):  # the clock may jump between two pulses
            monkeypatch.setattr(module, "HANG", math.inf)
        gate = self.gate(hang_word="bad")
        asked = Asked(gate, "one bad two")
        assert asked.first() == TokenEvent("one")

        def ended_later() -> bool:
            self.clock.now += watch.STUCK + 1  # again and again: the first pulse behind the latest step is progress
            return not asked.quiet()

        until(ended_later)
        with pytest.raises(EngineFailure, match="was ended, because it has made no progress for 15 s"):
            asked.rest()

    def test_a_worker_that_dies_idle_is_cold(self) -> None:
        gate = self.gate()
        assert Asked(gate, "word").text() == "word"
        os.kill(self.worker(gate), signal.SIGKILL)
        until(lambda: gate.rung is Rung.COLD)
        assert gate.host.footprint().total == 0
        assert Asked(gate, "next").text() == "next"

    def test_the_report_names_deaths_and_confinement(self) -> None:
        gate = self.gate(abort_word="bad")
        assert gate.host.report == {"isolation": "process", "deaths": 0, "starts_in": 0.0, "confined": None}
        with pytest.raises(EngineFailure, match="SIGABRT"):
            Asked(gate, "bad").rest()
        assert Asked(gate, "good").text() == "good"
        report = gate.host.report
        assert report["deaths"] == 1
        assert list(cast(dict[str, str], report["confined"])) == ["no_new_privs", "rlimits", "landlock", "seccomp"]

    def test_a_worker_that_keeps_dying_is_started_after_a_pause(self) -> None:
        gate = self.gate(abort_word="bad")
        for _ in range(3):
            with pytest.raises(EngineFailure, match="SIGABRT"):
                Asked(gate, "bad").rest()
        with pytest.raises(Restarting, match="has ended 3 times") as raised:
            Asked(gate, "good").rest()
        assert raised.value.retry_after == 1
        self.clock.now += 1
        assert Asked(gate, "good").text() == "good"

    def test_cold_means_that_the_process_is_gone(self) -> None:
        gate = self.gate()
        assert Asked(gate, "word").text() == "word"
        pid = self.worker(gate)
        lower(gate, Rung.WARM)
        assert self.worker(gate) == pid
        lower(gate, Rung.COLD)
        assert cast(ProcessHost, gate.host).pid is None
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)

    @every
    def test_a_slow_reader_stops_the_worker_within_its_window(self, kind: str) -> None:
        gate, room = self.gate(kind), threading.Event()
        words = " ".join(["word"] * 1000)
        slow = Asked(gate, words, room.is_set)
        assert slow.first() == TokenEvent("word")
        until(lambda: gate.host.stuck)
        line = cast(ProcessHost, gate.host).remote.link
        assert line is not None
        (inbox,) = line._board.inboxes.values()
        until(lambda: sum(map(weigh, tuple(inbox.events))) >= WINDOW - KB)
        assert sum(map(weigh, tuple(inbox.events))) <= WINDOW + KB
        room.set()
        gate.wake()
        assert slow.text() == words.removeprefix("word")

    @pytest.mark.slow
    @every
    def test_long_answers_keep_the_worker(self, kind: str) -> None:
        gate, spaces = self.gate(kind), " " * 1_200_000
        assert Asked(gate, "one two").text() == "one two"
        worker = self.worker(gate)
        pieces = TextRequest(text="9" * 400_000, pieces=True)
        prompt = TextRequest(chat=ChatRequest(messages=(Message("user", (TextPart(spaces),)),)))
        events = [one.rest()[0] for one in [Asked(gate, request) for request in (pieces, prompt, prompt, prompt)]]
        sizes = [(len(one.text), len(one.pieces)) for one in events if isinstance(one, TextEvent)]
        assert sizes == [(0, 400_000), *[(len(spaces), 0)] * 3]
        assert self.worker(gate) == worker


@pytest.mark.parametrize("event", [ReadEvent(), TokenEvent("a")])
def test_others_may_begin_as_soon_as_a_prompt_was_read(event: ChatEvent) -> None:
    """A long prompt of the same client waited for all of a call of a tool, 70 s: the worker sends no more before."""
    remote, work = Mock(failed=False), Work(ask("one"), lambda item: None, prompt=600)
    remote.run.return_value = iter([None, event, None, None])
    loop = RemoteLoop(remote, Runs(lambda: None, lambda: 0.0), batches=True)
    loop.begin(Admitted(work, 0.0))
    waits = []
    for _ in range(3):
        assert loop.turn() == []
        waits.append(remote.wait.call_count)
    assert waits == [1, 1, 2]
