"""The serving process's end of the line to one worker: questions, answers under way, and the worker's death."""

from __future__ import annotations

import contextlib
import logging
import math
import signal
import threading
import time
from collections.abc import Callable
from typing import Any

from edgeserve import clients
from edgeserve.errors import Busy, EdgeserveError, EngineFailure
from edgeserve.hosts.board import Board
from edgeserve.hosts.inbox import Inbox, Over, kinds_of
from edgeserve.hosts.sender import Sender
from edgeserve.hosts.watch import HANG, Watch
from edgeserve.messages import DetectRequest, Event, Request, SpeechChances
from edgeserve.processes.child import STOP_SECONDS, Child, ended
from edgeserve.processes.frames import FROM_CHILD, Channel, Kind
from edgeserve.processes.state import EngineState
from edgeserve.residency.weight import WINDOW

log = logging.getLogger("edgeserve.process")

LOOK_AGAIN = 1.0
"""Seconds between two looks at a worker that owes an answer."""
CLOSING = 30.0
"""Seconds that a worker has to close its engine, whatever else it sends meanwhile; then it is killed."""
PREPARING = 1800.0
"""Seconds that a child has to prepare a model; then it is killed, and the model is used as it is."""


class Link:
    """The line is open as long as the child lives. ``died`` is called once, on the link's thread, with the exit code
    of a worker that ended without having been asked to. ``clock`` in seconds. ``explain`` makes the error of such an
    end, with its cause; it may take some seconds.

    Raises Busy when the system gives no thread; the child is closed then.
    """

    def __init__(
        self,
        child: Child,
        name: str,
        died: Callable[[int | None], None],
        clock: Callable[[], float] = time.monotonic,
        explain: Callable[[str], EngineFailure] = EngineFailure,
    ) -> None:
        self._child = child
        self._name = name
        self._died = died
        self._clock = clock
        self._explain = explain
        self._watch = Watch(clock)
        self._channel = Channel(child.socket, FROM_CHILD)
        self._changed = threading.Condition()
        self._board = Board(self._changed, self._watch, self._stir)
        self._sender = Sender(self._channel, name, self._changed, self._watch, self.kill, lambda: self._ended)
        self._stirred = self._stopping = False
        self._kept = -1
        self._killed = ""
        self._reason: EdgeserveError | None = None
        self._ended: EdgeserveError | None = None
        self._reader = threading.Thread(target=self._read, name=f"edgeserve-{name}", daemon=True)
        try:
            self._reader.start()
        except RuntimeError as error:
            child.close()
            raise Busy(f"no thread can be started for {name}: {error}; try again", retry_after=2) from error

    @property
    def state(self) -> EngineState:
        return self._board.state

    @property
    def failed(self) -> bool:
        """The engine has failed, or its process has ended: it makes no more answers."""
        return self._board.failed

    @property
    def pid(self) -> int:
        return self._child.pid

    @property
    def alive(self) -> bool:
        return self._ended is None

    @property
    def owes(self) -> bool:
        """Whether the worker owes an answer, or the result of a step. Any thread."""
        return self._watch.owes

    # Questions

    def ask(self, method: str, *arguments: object) -> Any:
        """Let the engine do a step, after the answers under way; returns its result. Raises the error of the step."""
        return self._result_of(Kind.CALL, [method, *arguments])[1]

    def prepare(self, request: Request) -> tuple[int, int]:
        """Prepare a request beside the answers under way; returns its number and tokens. Raises its error."""
        number, tokens = self._result_of(Kind.PREPARE, request)
        return number, tokens if isinstance(tokens, int) else 0  # as for ``detect``

    def detect(self, request: DetectRequest) -> SpeechChances:
        """Tell speech from other sounds, beside the answers under way. Raises the error of the engine."""
        found = self._result_of(Kind.DETECT, request)[1]
        if not isinstance(found, SpeechChances):  # a worker that a crafted file has taken over may send anything
            raise EngineFailure(f"the process of {self._name} sent no chances of speech")
        return found

    def keep(self, most: int) -> None:
        """Let the engine keep at most so many bytes of past prompts, at work too."""
        if most != self._kept:
            self._kept = most
            self._sender.tell(Kind.KEEP, most, 0)

    def forget(self, number: int) -> None:
        """A prepared request is not wanted any more. Safe in a finaliser: the next frame reports it to the worker."""
        self._sender.forget(number)

    # Answers

    def begin(self, request: Request, prepared: int | None, log_id: str) -> Inbox:
        """Let the worker begin an answer. Raises EngineFailure when it has gone, and Busy as ``Sender.send`` does."""
        inbox = Inbox(self._sender.number() if prepared is None else prepared, kinds_of(request))
        with self._changed:
            self._board.inboxes[inbox.number] = inbox
        try:
            key = str(hash(clients.current.get().groups[0]))  # the worker shares time out, and needs to know no key
            self._sender.send(Kind.RUN, [log_id, key, None if prepared else request], inbox.number)
        except BaseException:
            with self._changed:
                self._board.inboxes.pop(inbox.number, None)
            raise
        return inbox

    def next(self, inbox: Inbox) -> Event | None:
        """The next event; None when none has come yet. Raises Over at the end, or the answer's error."""
        if inbox.events:
            event = inbox.take()
            if inbox.untold >= WINDOW // 4:
                self._sender.tell(Kind.TAKEN, inbox.tell(), inbox.number)
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
        """Forget an answer; the worker ends it within a token or segment.

        Waits for the end of one that rests: who goes on now needs the memory that it has in the worker.
        """
        number = inbox.number
        with self._changed:
            self._board.inboxes.pop(number, None)
            waits = inbox.rests and not inbox.ended
            if waits:
                self._board.questions.add(number)
        if not inbox.ended:
            self._sender.tell(Kind.CANCEL, None, number)
        if waits:
            with contextlib.suppress(EdgeserveError):  # a process that has gone holds nothing
                self._wait_for(number, math.inf)
            self._board.questions.discard(number)

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
        """Let the worker close its engine and end; kill it if it does not. Raises the error of the engine's close.

        A worker may take long to close its engine, as long as it gives signs of life.
        """
        self._stopping = True
        try:
            if self.alive:
                self._result_of(Kind.STOP, None, CLOSING)
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
        self._reader.join(PREPARING)
        if self._reader.is_alive():
            self.kill(f"it has prepared for {PREPARING:g} s")
            self._reader.join()
        if code := self._child.wait(1.0):
            log.warning("%s: a child that was to prepare it %s; it is used as it is", self._name, ended(code))
        self._channel.close()
        self._child.close()

    def kill(self, why: str) -> None:
        """Kill the worker, once. Never waits: the caller may hold the lock, for which the event loop waits too."""
        if not self._killed:
            self._killed = why
            log.error("%s: %s; its process %d is killed", self._name, why, self._child.pid)
            self._child.signal(signal.SIGKILL)

    def abandon(self, reason: EdgeserveError) -> None:
        """Kill the worker, whatever it does; its questions end with ``reason``. Returns once it is gone. Any thread."""
        self._reason, self._stopping = reason, True
        self._child.kill()

    # Waiting

    def _result_of(self, kind: Kind, value: object, seconds: float = math.inf) -> tuple[int, Any]:
        """Ask a question and wait; returns its number and its result. Raises its error.

        The worker is killed after so many seconds.
        """
        number, until = self._sender.number(), self._clock() + seconds
        self._board.questions.add(number)  # before the worker can answer
        try:
            self._sender.send(kind, value, number)
            result = self._wait_for(number, until)
        finally:
            self._board.questions.discard(number)
        if isinstance(result, EdgeserveError):
            raise result
        return number, result

    def _wait_for(self, number: int, until: float) -> Any:
        with self._changed:
            while number not in self._board.results:
                if self._ended is not None:
                    raise self._ended
                if self._clock() > until:
                    self.kill("it has not closed its engine in time")
                    until = math.inf  # its end follows
                self._pause()
            return self._board.results.pop(number)

    def _pause(self) -> None:
        if not self._changed.wait(LOOK_AGAIN):
            why = self._watch.look(STOP_SECONDS if self._stopping else HANG)
            if why is not None:
                self.kill(why)

    def _stir(self) -> None:
        self._stirred = True
        self._changed.notify_all()

    # On the link's thread

    def _read(self) -> None:
        try:
            while (frame := self._channel.receive()) is not None:
                self._board.take(frame)
                self._watch.heard(frame)
        except OSError as error:
            log.debug("%s: %s", self._name, error)
        except Exception as error:  # a worker that a crafted file has taken over may send anything
            self.kill(f"it sent what it must not send: {type(error).__name__}: {error}")
        finally:
            self._end()

    def _end(self) -> None:
        """The connection has ended; so has the process, or it will."""
        code = self._child.stop(1.0) if not self._stopping else None
        text = f"the process of {self._name} {ended(code)}"
        if self._killed:
            text = f"the process of {self._name} was ended, because {self._killed}"
        elif self._stopping:
            text = f"{self._name} was closed"
        error = EngineFailure(f"{text}; the next request starts it again")
        if not self._stopping:
            error = self._explain(error.message)
            log.error("%s", error.message)
            self._died(None if self._killed else code)
        with self._changed:
            self._board.wipe()
            self._ended = self._reason or error
            self._stir()
