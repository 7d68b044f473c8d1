"""Everything that a worker has sent: its state, the events of its answers, and the results of questions."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from edgeserve.hosts.inbox import Inbox
from edgeserve.hosts.watch import Watch
from edgeserve.hosts.worker_log import relay
from edgeserve.messages import TokenEvent
from edgeserve.processes import codec, failures
from edgeserve.processes.frames import Broken, Frame, Kind
from edgeserve.processes.state import EngineState
from edgeserve.residency.weight import WINDOW


class Board:
    """``changed`` guards it; its holder may read and write ``inboxes``, ``results`` and ``questions``, by number.

    ``stir`` is called, with ``changed`` held, when something has come.
    """

    def __init__(self, changed: threading.Condition, watch: Watch, stir: Callable[[], None]) -> None:
        self.state = EngineState()
        self.failed = False
        self.inboxes: dict[int, Inbox] = {}
        self.results: dict[int, Any] = {}
        self.questions: set[int] = set()
        self._changed = changed
        self._watch = watch
        self._stir = stir

    def wipe(self) -> None:
        """The worker has gone. The caller holds ``changed``."""
        self.state, self.failed = EngineState(), True

    def take(self, frame: Frame) -> None:
        """Take the content of a frame. On one thread. Raises Broken, ValueError and others for a wrong frame."""
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

    def _take_state(self, state: object) -> None:
        if not isinstance(state, EngineState):
            raise Broken("no state")
        state.check()
        with self._changed:
            self.state = state
            self._stir()

    def _take_events(self, frame: Frame) -> None:
        reader = codec.Reader(frame.body)
        events = [
            (number, TokenEvent(value) if isinstance(value, str) else reader.read(value))
            for number, value in frame.head
        ]
        with self._changed:
            for number, event in events:
                if inbox := self.inboxes.get(number):
                    inbox.put(event, WINDOW)
            self._stir()

    def _take_end(self, frame: Frame) -> None:
        """Head: the error or None, the result, and whether the engine has failed."""
        error, result, failed = frame.head
        told = None if error is None else failures.read_error(error)
        with self._changed:
            self.failed |= bool(failed)
            self._watch.settle(frame.number)
            if inbox := self.inboxes.pop(frame.number, None):
                inbox.ended, inbox.error = True, told
            elif frame.number in self.questions:  # nobody wants the end of an answer that was given up
                self.results[frame.number] = told or codec.read(result, frame.body)
            self._stir()
