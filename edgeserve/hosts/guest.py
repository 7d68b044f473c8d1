"""An engine in a worker process: its steps and answers, as the serving process asks for them.

Threads of the worker:
    main      reads what the serving process sends, and detects speech
    engine    moves the engine and drives its loop; the only one that sends events
    prepare   prepares requests beside the answers under way
    read      prepares long texts, which would delay the others
    pulse     reports once a second, while there is work, that the process is alive
"""

from __future__ import annotations

import functools
import os
import queue
import signal
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable, Mapping

import edgeserve.audio.clip
import edgeserve.audio.piped  # noqa: F401 - both may come with a request
from edgeserve.engine import Engine
from edgeserve.engine_abilities import Preparing, prompt_tokens
from edgeserve.errors import Cancelled, NotSupported
from edgeserve.hosts.abilities import Abilities
from edgeserve.hosts.busy import Busy
from edgeserve.hosts.loop import IDLE_AFTER, STARVED, Loop, loop_of
from edgeserve.hosts.outgoing import Answer, GuestRuns, Outgoing
from edgeserve.hosts.steps import Steps
from edgeserve.messages import Request
from edgeserve.processes import codec, failures
from edgeserve.processes.frames import Channel, Frame, Kind
from edgeserve.processes.state import EngineState
from edgeserve.residency.work import Admitted, takes_long
from edgeserve.system import growth

PULSE = 1.0
"""Seconds between two pulses."""


class Guest:
    """Serves one engine until the serving process says stop."""

    def __init__(self, channel: Channel, engine: Engine, confined: Mapping[str, str]) -> None:
        """``confined``: the layers of confinement that are on, or off and why."""
        self._channel = channel
        self._engine = engine
        self._able = Abilities.of(engine)
        self._out = Outgoing(channel)
        self._loop: Loop = loop_of(engine, GuestRuns(self._out.flush))
        self._steps = Steps(engine, self._loop, confined)
        self._answers: dict[int, Answer] = {}
        self._prepared: dict[int, tuple[Request, object]] = {}
        self._waiting: deque[Answer] = deque()
        self._calls: deque[Frame] = deque()
        self._stop: Frame | None = None
        self._news: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._preparing: queue.SimpleQueue[Frame] = queue.SimpleQueue()
        self._reading: queue.SimpleQueue[tuple[int, Request]] = queue.SimpleQueue()
        self._told: EngineState | None = None
        self._busy, self._rounds = Busy(), 0
        self._waits = False  # every answer waits for its reader: a pulse has no progress to report

    def serve(self) -> None:
        """Blocks until the engine is closed. Called on the main thread."""
        self._tell_state()  # the engine may be opened; no thread works yet
        engine = threading.Thread(target=self._drive, name="engine")
        engine.start()
        threading.Thread(target=self._pulse, name="pulse", daemon=True).start()
        if preparing := self._able.preparing:
            for name, all_ in (("prepare", self._prepare_all), ("read", self._read_all)):
                threading.Thread(target=all_, args=[preparing], name=name, daemon=True).start()
        while (frame := self._channel.receive_rarely()) is not None:
            self._take(frame)
            if frame.kind is Kind.STOP:
                # From now on the signal ends the process; before, it came to the whole group of the server.
                signal.signal(signal.SIGTERM, signal.SIG_DFL)
                engine.join()
                return
            del frame  # its body may be a picture
        os._exit(1)  # the serving process has gone: nobody wants anything of this one any more

    # On the main thread

    def _take(self, frame: Frame) -> None:
        if frame.kind is Kind.PREPARE:
            self._preparing.put(frame)
        elif frame.kind is Kind.DETECT:
            self._answer(frame.number, functools.partial(self._detect, frame))
        elif frame.kind is Kind.FORGET:
            self._prepared.pop(frame.number, None)
        elif frame.kind is Kind.KEEP:
            self._steps.keep(int(frame.head))
        elif frame.kind in (Kind.CANCEL, Kind.TAKEN):
            if answer := self._answers.get(frame.number):
                if frame.kind is Kind.CANCEL:
                    answer.work.abort(Cancelled("the request was cancelled"))
                else:
                    answer.taken(int(frame.head))
            self._news.put(None)
        else:
            if frame.kind is Kind.RUN:
                self._expect(frame)
            elif frame.kind is Kind.STOP:
                for answer in tuple(self._answers.values()):
                    answer.work.abort(Cancelled("the engine is closed"))
            self._news.put(frame)

    def _detect(self, frame: Frame) -> object:
        """Takes a few milliseconds at most, and so needs no thread of its own."""
        if (detecting := self._able.detecting) is None:
            raise NotSupported(f"{self._engine.spec.name} has no detector of speech")
        return detecting.detect(codec.read(frame.head, frame.body))

    def _expect(self, frame: Frame) -> None:
        """Note an answer before the engine's thread sees it: its cancel may come at once."""
        log_id, key, request = codec.read(frame.head, frame.body, frame.descriptors)
        prepared = None
        if frame.number in self._prepared:
            request, prepared = self._prepared.pop(frame.number)
        answer = Answer(frame.number, request, log_id, key, self._out.add, frame.close)
        answer.work.prepared = prepared
        self._answers[frame.number] = answer

    # On the preparing thread, and on the reading one

    def _prepare_all(self, engine: Preparing) -> None:
        while True:
            self._prepare_one(engine, self._preparing.get())  # the loop holds no request while it waits

    def _prepare_one(self, engine: Preparing, frame: Frame) -> None:
        with self._busy.at("prepare"):
            try:
                request = codec.read(frame.head, frame.body, frame.descriptors)
            except Exception as error:
                self._end(frame.number, error)
                return
            if takes_long(request):
                self._reading.put((frame.number, request))
            else:
                self._prepare(engine, frame.number, request)

    def _read_all(self, engine: Preparing) -> None:
        while True:
            self._read_one(engine, *self._reading.get())

    def _read_one(self, engine: Preparing, number: int, request: Request) -> None:
        with self._busy.at("read"):
            self._prepare(engine, number, request)

    def _prepare(self, engine: Preparing, number: int, request: Request) -> None:
        @growth.others.work()
        def prepare() -> int:
            found = self._prepared[number] = (request, engine.prepare(request))  # type: ignore[arg-type]  # of its kind
            return prompt_tokens(found[1])

        self._answer(number, prepare)

    # On the pulse's thread

    def _pulse(self) -> None:
        while True:
            self._busy.wait()
            self._channel.send(Kind.PULSE, 0, None if self._waits else self._rounds)
            time.sleep(PULSE)

    # On the engine's thread

    def _drive(self) -> None:
        try:
            while not (stop := self._stop) or self._loop.runs or self._waiting or self._calls:
                self._go_round()
            self._answer(stop.number, self._engine.close)
        except OSError:  # the line is cut: the serving process has gone
            os._exit(1)
        except BaseException:
            traceback.print_exc()
            os._exit(1)

    def _go_round(self) -> None:
        self._collect()
        self._rounds += 1
        while self._waiting and self._loop.spare:  # the serving process has chosen whose turn it is
            self._begin(self._waiting.popleft())
        if self._loop.runs:
            self._turn()
        elif self._calls:
            self._call(self._calls.popleft())

    def _collect(self) -> None:
        """Take what has come; wait for it while there is nothing to do."""
        able = self._loop.runs and not self._loop.runs.stuck and not self._loop.starved
        if not (able or self._calls or (self._waiting and self._loop.spare) or self._stop):
            if not self._loop.runs:
                self._busy.end("engine")
                self._rest()
            else:
                self._waits = True
                self._sort(self._next(STARVED if self._loop.starved else None))
                self._waits = False
        self._busy.begin("engine")
        while not self._news.empty():
            self._sort(self._news.get())

    def _rest(self) -> None:
        """Wait for something to do, and report meanwhile the memory that the latest answers have left."""
        self._tell_state()
        self._steps.give_back()
        frame = self._next(IDLE_AFTER if self._steps.used else None)
        if frame is None and self._steps.used:
            self._steps.measure()
            self._tell_state()
        self._sort(frame)

    def _next(self, seconds: float | None) -> Frame | None:
        try:
            return self._news.get(timeout=seconds)
        except queue.Empty:
            return None

    def _sort(self, frame: Frame | None) -> None:
        if frame is None:
            return
        if frame.kind is Kind.RUN:
            self._waiting.append(self._answers[frame.number])
        elif frame.kind is Kind.STOP:
            self._stop = frame
        else:
            self._calls.append(frame)

    def _begin(self, answer: Answer) -> None:
        self._steps.use()
        try:
            answer.work.check_wanted()
            answer.work.context.run(self._loop.begin, Admitted(answer.work, 0.0))
        except Exception as error:
            self._forget(answer, error)

    def _turn(self) -> None:
        starved = self._loop.starved
        ended = self._loop.turn()
        self._out.flush()
        for one in ended:
            answers = tuple(self._answers.values())  # at once: the main thread adds answers meanwhile
            answer = next(found for found in answers if found.work is one.admitted.work)
            self._forget(answer, one.error)
        if self._loop.starved is not starved or self._slots_changed():
            self._tell_state()

    def _slots_changed(self) -> bool:
        """Whether an answer has taken a slot, or has left one. The next report has the tokens of busy slots."""
        slots = self._steps.slot_states()
        told = self._told.slot_states if self._told else ()
        return [one.busy for one in slots] != [one.busy for one in told]

    def _forget(self, answer: Answer, error: Exception | None) -> None:
        del self._answers[answer.number]
        answer.end()
        if not self._loop.runs:
            self._tell_state()
        self._end(answer.number, error, failed=self._loop.failed)

    def _call(self, frame: Frame) -> None:
        def step() -> object:
            method, *arguments = codec.read(frame.head, frame.body)
            try:
                return self._steps.take(method, arguments)
            finally:
                self._tell_state()

        self._answer(frame.number, step)

    # Telling

    def _answer(self, number: int, ask: Callable[[], object]) -> None:
        """Do what a question asks, and send its result or its error."""
        try:
            result = ask()
        except Exception as error:
            self._end(number, error)
        else:
            self._end(number, result=result)

    def _end(self, number: int, error: Exception | None = None, *, result: object = None, failed: bool = False) -> None:
        told = None
        if error is not None:
            told = failures.write_error(error, self._engine.spec.name, "".join(traceback.format_exception(error)))
            error.__traceback__ = None  # its frames know the request, and while the worker rests, nothing collects
        writer = codec.Writer()
        self._channel.send(Kind.DONE, number, [told, writer.write(result), failed], writer.body)

    def _tell_state(self) -> None:
        state = self._steps.state()
        if self._told is None or state != self._told:
            self._told = state
            writer = codec.Writer()
            self._channel.send(Kind.STATE, 0, writer.write(state), writer.body)
