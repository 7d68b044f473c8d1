"""The line to a worker that a crafted file may have taken over: the server kills or ignores it, and loses nothing."""

from __future__ import annotations

import contextlib
import contextvars
import errno
import logging
import os
import select
import signal
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.gates import Clock
from support.server import until

from edgeserve import clients
from edgeserve.engine import Footprint
from edgeserve.errors import Busy, EngineFailure
from edgeserve.hosts import dropped, sender
from edgeserve.hosts import link as module
from edgeserve.hosts.inbox import Inbox, Over
from edgeserve.hosts.link import Link
from edgeserve.messages import (
    AudioEvent,
    ChatRequest,
    Event,
    FinishEvent,
    ReasoningEvent,
    Rest,
    SpeakRequest,
    TokenEvent,
)
from edgeserve.processes import codec, frames
from edgeserve.processes.child import Child
from edgeserve.processes.frames import Channel, Frame, Kind
from edgeserve.processes.state import EngineState
from edgeserve.residency.weight import WINDOW
from edgeserve.units import MB

REQUEST = ChatRequest(prompt="word")
linux = pytest.mark.skipif(sys.platform != "linux", reason="/proc lists descriptors on Linux only")


class Process:
    """The process of a worker that the test plays itself. SIGKILL closes its socket."""

    pid = 1

    def __init__(self, theirs: socket.socket) -> None:
        self._theirs = theirs
        self._ended = threading.Event()
        self._code = 0
        self.closed = False

    def wait(self, seconds: float | None) -> int | None:
        return self._code if self._ended.wait(seconds) else None

    def send(self, number: int) -> None:
        if number == signal.SIGKILL:
            self.end(-number)

    def end(self, code: int) -> None:
        self._code = code
        self._ended.set()
        with contextlib.suppress(OSError):
            self._theirs.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        self.closed = True


class Worker:
    """A worker and the line to it. ``deaths``: the exit codes that the link has told."""

    def __init__(self) -> None:
        ours, self.socket = socket.socketpair()
        self.process = Process(self.socket)
        self.channel = Channel(self.socket)
        self.clock = Clock()
        self.deaths: list[int | None] = []
        self.link = Link(Child(self.process, ours, "worker"), "model", self.deaths.append, self.clock)

    def hears(self, kind: Kind) -> Frame:
        """The next frame of this kind."""
        while (frame := self.channel.receive()) is not None:
            if frame.kind is kind:
                return frame
        raise AssertionError(f"the line has ended before a frame {kind.name}")

    def tell(self, state: EngineState) -> None:
        self.channel.send(Kind.STATE, 0, codec.Writer().write(state))

    def come(self, inbox: Inbox) -> list[Event]:
        """The events that have come."""
        found = []
        while (event := self.link.next(inbox)) is not None:
            found.append(event)
        return found

    def told(self) -> int:
        """Bytes that the reader has taken, if the link tells of some at once."""
        return self.hears(Kind.TAKEN).head if select.select([self.socket], [], [], 0.01)[0] else 0

    def close(self) -> None:
        self.process.end(0)
        self.link.stop()
        self.socket.close()


@pytest.fixture
def worker() -> Iterator[Worker]:
    made = Worker()
    yield made
    made.close()


def in_thread(call: Callable[[], object]) -> Callable[[], Any]:
    """Call it in a thread; returns a function that waits for its result, or raises its error."""
    found: list[object] = []

    def run() -> None:
        try:
            found.append(call())
        except Exception as error:
            found.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()

    def result() -> Any:
        thread.join(10)
        assert found, "it still waits"
        if isinstance(found[0], Exception):
            raise found[0]
        return found[0]

    return result


def nested(depth: int) -> Any:
    value: Any = None
    for _ in range(depth):
        value = [value]
    return value


STATE = codec.Writer().write(EngineState())
SAYINGS: dict[str, tuple[Kind, Any]] = {
    "a kind of the server": (Kind.RUN, None),
    "no state": (Kind.STATE, 1),
    "a state of text": (Kind.STATE, {"c": "EngineState", "v": ["1", *STATE["v"][1:]]}),
    "an unknown class": (Kind.STATE, {"c": "Popen", "v": []}),
    "a class that is none": (Kind.STATE, {"c": ["EngineState"], "v": []}),
    "a dict that is none": (Kind.STATE, {"d": [1]}),
    "a number as fields": (Kind.STATE, {"c": "EngineState", "v": 5}),
    "a deep value": (Kind.STATE, nested(700)),
    "rung 9": (Kind.STATE, codec.Writer().write(EngineState(rung=9))),
    "no slots": (Kind.STATE, codec.Writer().write(EngineState(slots=0))),
    "negative memory": (Kind.STATE, codec.Writer().write(EngineState(footprint=Footprint(private=-1)))),
    "absurd memory": (Kind.STATE, codec.Writer().write(EngineState(footprint=Footprint(private=10**30)))),
    "absurd savings": (Kind.STATE, codec.Writer().write(EngineState(savings={"context": -(10**30)}))),
    "savings of text": (Kind.STATE, codec.Writer().write(EngineState(savings={"context": "1"}))),  # type: ignore[dict-item]
    "no end": (Kind.DONE, 7),
    "an end without parts": (Kind.DONE, []),
    "an error of no class": (Kind.DONE, [["SystemExit", "", None, None, ""], None, False]),
    "an error with a time of text": (Kind.DONE, [["Busy", "", None, "soon", ""], None, False]),
    "an error with an endless time": (Kind.DONE, [["Busy", "", None, float("inf"), ""], None, False]),
    "an error with a param of its own": (Kind.DONE, [["Busy", "", [1], None, ""], None, False]),
    "no events": (Kind.EVENTS, 7),
    "events of no number": (Kind.EVENTS, [[[], "text"]]),
    "an event of another job": (Kind.EVENTS, [[1, codec.Writer().write(AudioEvent(b"", 1))]]),
    "an event that is none": (Kind.EVENTS, [[1, 5]]),
    "an event of no text": (Kind.EVENTS, [[1, {"c": "TokenEvent", "v": [5, []]}]]),
    "an event with a finish of its own": (Kind.EVENTS, [[1, {"c": "FinishEvent", "v": ["bored", 1, 1, 0, 0]}]]),
    "no log line": (Kind.LOG, 7),
    "a log line of no level": (Kind.LOG, [float("inf"), "name", "text", "-", "text"]),
    "bytes that are not there": (Kind.EVENTS, [[1, {"c": "AudioEvent", "v": [{"b": [0, 9]}, 1]}]]),
}


@pytest.mark.parametrize("name", SAYINGS)
def test_a_worker_that_says_what_it_must_not_is_killed(worker: Worker, name: str) -> None:
    kind, head = SAYINGS[name]
    inbox = worker.link.begin(REQUEST, None, "-")
    assert inbox.number == 1
    worker.channel.send(kind, inbox.number, head)
    until(lambda: not worker.link.alive)
    assert worker.deaths == [None]
    with pytest.raises(EngineFailure, match="it sent what it must not send"):
        worker.link.next(inbox)
    assert worker.link.state == EngineState()


@linux
def test_descriptors_of_a_worker_do_not_stay(worker: Worker) -> None:
    before = len(os.listdir("/proc/self/fd"))
    with open("/dev/null", "rb") as null:
        worker.channel.send(Kind.PULSE, 0, 1, descriptors=[null.fileno()] * 8)
    until(lambda: not worker.link.alive)
    worker.link.stop()
    assert len(os.listdir("/proc/self/fd")) < before


def test_bytes_that_are_told_twice_do_not_grow(worker: Worker) -> None:
    inbox = worker.link.begin(REQUEST, None, "-")
    twice = [[2, {"c": "AudioEvent", "v": [{"b": [0, MB]}, 1]}] for _ in range(2)]
    worker.channel.send(Kind.EVENTS, 0, twice, bytes(MB))
    until(lambda: not worker.link.alive)
    with pytest.raises(EngineFailure, match=f"behind byte {MB}"):
        worker.link.next(inbox)


def test_a_worker_that_does_not_stop_at_its_window_is_killed(worker: Worker) -> None:
    inbox = worker.link.begin(REQUEST, None, "-")
    with contextlib.suppress(OSError):
        for _ in range(2 * WINDOW // 1000):
            worker.channel.send(Kind.EVENTS, 0, [[inbox.number, "x" * 1000]])
    until(lambda: not worker.link.alive)
    assert len(inbox.events) * 1200 < WINDOW + 1200


def test_names_of_log_lines_leave_nothing_behind(worker: Worker, caplog: pytest.LogCaptureFixture) -> None:
    known = set(logging.Logger.manager.loggerDict)
    worker.channel.send(Kind.LOG, 0, [logging.ERROR, ".".join("abc" * 100), "one", "-", "one"])
    worker.channel.send(Kind.LOG, 0, [logging.ERROR, "edgeserve.of-the-worker", "two", "-", "two"])
    until(lambda: {"one", "two"} <= {record.message for record in caplog.records})
    assert set(logging.Logger.manager.loggerDict) == known
    assert worker.link.alive


def test_the_worker_tells_answers_of_a_key_from_others_and_knows_no_key(worker: Worker) -> None:
    told = []
    for key in ("one", "one", "two"):
        context = contextvars.copy_context()
        context.run(clients.current.set, clients.Client(key))
        context.run(worker.link.begin, REQUEST, None, "-")
        told.append(worker.hears(Kind.RUN).head[1])
    assert told[0] == told[1] != told[2]
    assert "one" not in told[0]


def test_events_for_other_answers_are_ignored(worker: Worker) -> None:
    inbox = worker.link.begin(REQUEST, None, "-")
    finish = FinishEvent("stop", 1, 1)
    worker.channel.send(Kind.EVENTS, 0, [[77, "foreign"], [inbox.number, codec.Writer().write(finish)]])
    worker.channel.send(Kind.DONE, 78, [None, None, False])
    until(lambda: bool(inbox.events))
    assert worker.link.next(inbox) == finish


def test_events_before_and_behind_the_window_come_in_order(worker: Worker) -> None:
    inbox = worker.link.begin(REQUEST, None, "-")
    worker.hears(Kind.RUN)
    words, got, room = [f"{number:04} " * 100 for number in range(400)], [], WINDOW
    for word in words:
        while room <= 0:
            got += worker.come(inbox)
            room += worker.told()
        event = word if len(got) % 2 else codec.Writer().write(ReasoningEvent(word))
        worker.channel.send(Kind.EVENTS, 0, [[inbox.number, event]])
        room -= 200 + len(word)
        until(lambda: bool(inbox.events))
    worker.channel.send(Kind.DONE, inbox.number, [None, None, False])
    until(lambda: inbox.ended)
    while inbox.events:
        got += filter(None, [worker.link.next(inbox)])
    with pytest.raises(Over):
        worker.link.next(inbox)
    assert [event.text for event in got if isinstance(event, TokenEvent | ReasoningEvent)] == words


def test_a_worker_that_closes_its_ears_alone_is_killed(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sender, "FAREWELL", 0.05)
    worker.socket.shutdown(socket.SHUT_RD)
    with pytest.raises(EngineFailure, match="it takes no frames"):
        in_thread(lambda: worker.link.ask("heat"))()


def test_a_system_without_descriptors_refuses_the_request_alone(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(data: object) -> int:
        raise OSError(errno.EMFILE, os.strerror(errno.EMFILE))

    large = ChatRequest(prompt="x", messages=())
    with monkeypatch.context() as patch:
        patch.setattr(frames, "shared_memory", full)
        patch.setattr(codec.Writer, "body", bytes(2 * MB))
        with pytest.raises(Busy, match="Too many open files"):
            in_thread(lambda: worker.link.begin(large, None, "-"))()
        with pytest.raises(Busy, match="Too many open files"):
            in_thread(lambda: worker.link.prepare(large))()
    assert worker.link.alive


def test_a_system_without_room_for_a_frame_refuses_the_request_alone(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker, with the answers of others in it, was ended as one that takes nothing."""
    monkeypatch.setattr(sender, "FAREWELL", 0.05)

    def full(*given: object, **named: object) -> None:
        raise OSError(errno.ETOOMANYREFS, os.strerror(errno.ETOOMANYREFS))

    with monkeypatch.context() as patch:
        patch.setattr(frames.Channel, "send", full)
        with pytest.raises(Busy, match="no room for a message"):
            in_thread(lambda: worker.link.begin(REQUEST, None, "-"))()
    assert worker.link.alive
    first = worker.link.begin(REQUEST, None, "-")
    assert worker.hears(Kind.RUN).number == first.number


def test_a_worker_that_does_not_close_its_engine_is_killed(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """It sends pulses and log lines all the while."""
    monkeypatch.setattr(module, "LOOK_AGAIN", 0.01)
    stopped = in_thread(worker.link.stop)
    worker.hears(Kind.STOP)
    worker.clock.now += module.CLOSING + 1
    with contextlib.suppress(BrokenPipeError):  # the link may have cut the line already
        worker.channel.send(Kind.PULSE, 0, 5)
        worker.channel.send(Kind.LOG, 0, [logging.INFO, "edgeserve", "I go on", "-", "I go on"])
    stopped()
    assert worker.process.closed


def test_a_child_that_prepares_for_ever_is_killed(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "PREPARING", 0.05)
    in_thread(worker.link.join)()
    assert worker.process.closed


def test_no_thread_closes_the_child(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    ours, theirs = socket.socketpair()
    process = Process(theirs)
    monkeypatch.setattr(threading.Thread, "start", refuse)
    with theirs, pytest.raises(Busy, match="can't start new thread"):
        Link(Child(process, ours, "worker"), "model", lambda code: None)
    assert process.closed
    assert ours.fileno() < 0


class Raced(deque[int]):
    """Another thread takes the last number between a look and the taking."""

    def __bool__(self) -> bool:
        return True


def test_threads_that_send_at_once_may_meet_at_the_last_dropped_request(monkeypatch: pytest.MonkeyPatch) -> None:
    """A client that goes drops its request, and the threads that begin and prepare other answers tell the worker."""
    monkeypatch.setattr(dropped, "deque", Raced)
    worker = Worker()
    worker.link.forget(7)
    first = worker.link.begin(REQUEST, None, "-")
    assert worker.hears(Kind.FORGET).number == 7
    assert worker.hears(Kind.RUN).number == first.number
    worker.close()


def test_a_kill_waits_for_nobody_and_is_told_once(worker: Worker, caplog: pytest.LogCaptureFixture) -> None:
    """Who kills holds the lock, for which the event loop waits as it wakes or cancels an answer."""
    signals: list[int] = []
    waits: list[float | None] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(worker.process, "send", signals.append)
        patch.setattr(worker.process, "wait", waits.append)
        worker.link.kill("it is late")
        worker.link.kill("it is still late")
    assert (signals, waits) == ([signal.SIGKILL], [])
    assert caplog.text.count("is killed") == 1


def test_a_worker_is_told_once_how_much_it_may_keep(worker: Worker) -> None:
    for most in (7, 7, 9):
        worker.link.keep(most)
    assert [worker.hears(Kind.KEEP).head for _ in range(2)] == [7, 9]


def resting(worker: Worker) -> tuple[Inbox, Callable[[], Any], threading.Event]:
    """An answer that ends at its rest, in a thread; its result; and whether the thread has gone on."""
    inbox, ended = worker.link.begin(SpeakRequest("One. Two."), None, ""), threading.Event()
    writer = codec.Writer()
    worker.channel.send(Kind.EVENTS, 0, [[inbox.number, writer.write(Rest(1))]], writer.body)
    until(lambda: inbox.events)
    assert worker.come(inbox) == [Rest(1)]

    def end() -> None:
        worker.link.end(inbox)
        ended.set()

    result = in_thread(end)
    worker.hears(Kind.CANCEL)
    assert not ended.wait(0.1)
    return inbox, result, ended


def test_an_answer_that_rests_has_ended_once_its_memory_is_free_in_the_worker(worker: Worker) -> None:
    """The next one found it taken, and other engines stepped down for it."""
    inbox, result, _ = resting(worker)
    worker.channel.send(Kind.DONE, inbox.number, [None, None, False])
    assert result() is None


def test_a_worker_that_dies_at_a_rest_keeps_nobody_waiting(worker: Worker) -> None:
    _, result, _ = resting(worker)
    worker.process.end(1)
    assert result() is None
