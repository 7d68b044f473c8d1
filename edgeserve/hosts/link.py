"""The serving process's end of the line to one worker: questions, answers under way, and the worker's death."""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from edgeserve.errors import EdgeserveError, EngineFailure
from edgeserve.hosts.inbox import Inbox, Over
from edgeserve.hosts.worker_log import relay
from edgeserve.messages import Event, Request, TokenEvent
from edgeserve.processes import codec
from edgeserve.processes.child import Child, ended
from edgeserve.processes.frames import Broken, Channel, Frame, Kind
from edgeserve.processes.state import EngineState
from edgeserve.residency.weight import weigh
from edgeserve.units import KB

log = logging.getLogger("edgeserve.process")

WINDOW = 64 * KB
"""Bytes of one answer that the worker makes ahead of the server; one event more may be under way."""
LOOK_AGAIN = 1.0
"""Seconds between two looks at a worker that owes an answer."""
HANG = 30.0
"""Seconds without a pulse after which a worker that owes an answer is killed; it sends one each second."""
STUCK = 600.0
"""Seconds in which a worker sends pulses but makes no progress, after which it is killed. A slow box may take minutes
to open a model, or for a step of a long prompt."""

ANSWERED = frozenset({Kind.CALL, Kind.PREPARE, Kind.RUN, Kind.STOP})
"""Frames that the worker answers with DONE."""


class Link:
    """The line is open as long as the child lives. ``died`` is called once, on the link's thread, with the exit code
    of a worker that ended without having been asked to. ``clock`` in seconds."""

    def __init__(
        self, child: Child, name: str, died: Callable[[int | None], None], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.state = EngineState()
        self.failed = False
        """The engine has failed, or its process has ended: it makes no more answers."""
        self._child = child
        self._name = name
        self._died = died
        self._clock = clock
        self._heard = self._moved = clock()
        self._rounds = 0
        self._channel = Channel(child.socket)
        self._channel.limit_sending(HANG)
        self._numbers = itertools.count(1)
        self._changed = threading.Condition()
        self._inboxes: dict[int, Inbox] = {}
        self._results: dict[int, Any] = {}
        self._questions: set[int] = set()
        self._owed: set[int] = set()
        self._dropped: deque[int] = deque()
        self._stirred = self._stopping = False
        self._killed = ""
        self._ended: EdgeserveError | None = None
        self._reader = threading.Thread(target=self._read, name=f"edgeserve-{name}", daemon=True)
        self._reader.start()

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._ended is None

    @property
    def held(self) -> int:
        """Bytes of events that have come and wait for the loop."""
        with self._changed:
            return sum(weigh(event) for inbox in self._inboxes.values() for event in tuple(inbox.events))

    # Questions

    def ask(self, method: str, *arguments: object) -> Any:
        """Let the engine do a step, after the answers under way; returns its result. Raises the error of the step."""
        return self._result_of(Kind.CALL, [method, *arguments])[1]

    def prepare(self, request: Request) -> int:
        """Prepare a request beside the answers under way; returns its number. Raises the error of its check."""
        return self._result_of(Kind.PREPARE, request)[0]

    def forget(self, number: int) -> None:
        """A prepared request is not wanted any more. Safe in a finaliser: the next frame tells the worker."""
        self._dropped.append(number)

    # Answers

    def begin(self, request: Request, prepared: int | None, log_id: str) -> Inbox:
        """Let the worker begin an answer. Raises EngineFailure when the worker has gone."""
        inbox = Inbox(next(self._numbers) if prepared is None else prepared)
        with self._changed:
            self._inboxes[inbox.number] = inbox
        try:
            self._send(Kind.RUN, [log_id, None if prepared else request], inbox.number)
        except EdgeserveError:
            self.end(inbox)
            raise
        return inbox

    def next(self, inbox: Inbox) -> Event | None:
        """The next event; None when none has come yet. Raises Over at the end, or the answer's error."""
        if inbox.events:
            event = inbox.events.popleft()
            inbox.taken += weigh(event)
            if inbox.taken >= WINDOW // 4:
                self._tell(Kind.TAKEN, inbox.taken, inbox.number)
                inbox.taken = 0
            return event
        with self._changed:
            if inbox.events:
                return None  # it came just now
            if inbox.error is not None:
                raise inbox.error
            if inbox.ended:
                raise Over
            if self._ended is not None:
                raise self._ended
        return None

    def end(self, inbox: Inbox) -> None:
        """Forget an answer; the worker ends it within a token or segment."""
        with self._changed:
            self._inboxes.pop(inbox.number, None)
        if not inbox.ended:
            self._tell(Kind.CANCEL, None, inbox.number)

    def wait(self) -> None:
        """Wait until a frame comes or ``wake`` is called; returns at once when that happened since the last call."""
        with self._changed:
            while not self._stirred and self._ended is None:
                self._pause()
            self._stirred = False

    def wake(self) -> None:
        with self._changed:
            self._stir()

    # The end

    def stop(self) -> None:
        """Let the worker close its engine and end; kill it if it does not. Raises the error of the engine's close."""
        self._stopping = True
        try:
            if self.alive:
                self._result_of(Kind.STOP, None)
        except EdgeserveError as error:
            if error is not self._ended:  # else the process ended before its engine: nothing is left open
                raise
        finally:
            self._child.stop()
            self._channel.close()
            self._reader.join()
            self._child.close()

    def join(self) -> None:
        """Wait until a child that needs no asking has ended by itself. Its failure is logged."""
        self._stopping = True
        self._reader.join()
        if code := self._child.wait(1.0):
            log.warning("%s: a child that was to prepare it %s; it is used as it is", self._name, ended(code))
        self._child.close()

    def kill(self, why: str) -> None:
        self._killed = why
        log.error("%s: %s; its process %d is killed", self._name, why, self._child.pid)
        self._child.kill()

    # Sending

    def _send(self, kind: Kind, value: object, number: int | None = None) -> int:
        """Returns the number of the frame. Raises EngineFailure when the worker has gone or reads nothing."""
        number = next(self._numbers) if number is None else number
        writer = codec.Writer()
        head = writer.write(value)
        if kind in ANSWERED:
            self._expect(number)
        try:
            self._flush_dropped()
            self._channel.send(kind, number, head, writer.body, writer.descriptors)
        except TimeoutError as error:
            self.kill(f"it has read nothing for {HANG:g} s")
            raise EngineFailure(f"{self._name} did not take a request for {HANG:g} s and was ended") from error
        except OSError:  # the process has gone, or goes: the link's thread finds out how
            with self._changed:
                while self._ended is None:
                    self._changed.wait()
                raise self._ended from None
        return number

    def _expect(self, number: int) -> None:
        """Note that the worker owes an answer. Its silence counts from now on: an idle worker sends no pulse."""
        with self._changed:
            if not self._owed:
                self._heard = self._moved = self._clock()
            self._owed.add(number)

    def _tell(self, kind: Kind, value: object, number: int) -> None:
        """As ``_send``, for what no worker needs to know any more once it has gone."""
        try:
            self._send(kind, value, number)
        except EngineFailure as error:
            log.debug("%s was not told: %s", self._name, error.message)

    def _flush_dropped(self) -> None:
        while self._dropped:
            self._channel.send(Kind.FORGET, self._dropped.popleft(), None)

    # Waiting

    def _result_of(self, kind: Kind, value: object) -> tuple[int, Any]:
        """Ask a question and wait; returns its number and its result. Raises its error."""
        number = next(self._numbers)
        self._questions.add(number)  # before the worker can answer
        try:
            self._send(kind, value, number)
            result = self._wait_for(number)
        finally:
            self._questions.discard(number)
        if isinstance(result, EdgeserveError):
            raise result
        return number, result

    def _wait_for(self, number: int) -> Any:
        with self._changed:
            while number not in self._results:
                if self._ended is not None:
                    raise self._ended
                self._pause()
            return self._results.pop(number)

    def _pause(self) -> None:
        if self._changed.wait(LOOK_AGAIN):
            return
        if self._clock() - self._heard > HANG:
            self.kill(f"it has given no sign of life for {HANG:g} s")
        elif self._clock() - self._moved > STUCK:
            self.kill(f"it has made no progress for {STUCK:g} s")

    def _stir(self) -> None:
        self._stirred = True
        self._changed.notify_all()

    # On the link's thread

    def _read(self) -> None:
        try:
            while (frame := self._channel.receive()) is not None:
                self._heard = self._clock()
                self._take(frame)
        except OSError as error:
            log.debug("%s: %s", self._name, error)
        except (Broken, ValueError, TypeError) as error:
            self.kill(f"it sent what it must not send: {error}")
        finally:
            self._end()

    def _take(self, frame: Frame) -> None:
        if frame.kind is Kind.EVENTS:
            self._take_events(frame)
        elif frame.kind is Kind.DONE:
            self._take_end(frame)
        elif frame.kind is Kind.STATE:
            self._take_state(codec.read(frame.head, frame.body))
        elif frame.kind is Kind.LOG:
            relay(frame.head)
        elif frame.kind is not Kind.PULSE:
            raise Broken(f"a frame of kind {frame.kind.name}")
        if frame.kind is not Kind.PULSE or frame.head is None or frame.head != self._rounds:
            self._moved = self._heard
        if frame.kind is Kind.PULSE:
            self._rounds = frame.head

    def _take_state(self, state: object) -> None:
        if not isinstance(state, EngineState):
            raise Broken("no state")
        with self._changed:
            self.state = state
            self._stir()

    def _take_events(self, frame: Frame) -> None:
        events = [
            (number, TokenEvent(value) if isinstance(value, str) else codec.read(value, frame.body))
            for number, value in frame.head
        ]
        with self._changed:
            for number, event in events:
                if inbox := self._inboxes.get(number):
                    inbox.events.append(event)
            self._stir()

    def _take_end(self, frame: Frame) -> None:
        """Head: the error or None, the result, and whether the engine has failed."""
        error, result, failed = frame.head
        told = None if error is None else codec.read_error(error)
        with self._changed:
            self.failed |= bool(failed)
            self._owed.discard(frame.number)
            if inbox := self._inboxes.pop(frame.number, None):
                inbox.ended, inbox.error = True, told
            elif frame.number in self._questions:  # nobody wants the end of an answer that was given up
                self._results[frame.number] = told or codec.read(result, frame.body)
            self._stir()

    def _end(self) -> None:
        """The connection has ended; so has the process, or it will."""
        code = self._child.stop(1.0) if not self._stopping else None
        text = f"the process of {self._name} {ended(code)}"
        if self._killed:
            text = f"the process of {self._name} was ended, because {self._killed}"
        elif self._stopping:
            text = f"{self._name} was closed"
        if not self._stopping:
            log.error("%s", text)
            self._died(None if self._killed else code)
        with self._changed:
            self.state = EngineState()
            self._ended = EngineFailure(f"{text}; the next request starts it again")
            self.failed = True
            self._stir()
