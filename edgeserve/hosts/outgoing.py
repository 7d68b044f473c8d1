"""The answers that a worker makes, and their events on the way to the serving process."""

from __future__ import annotations

import time
from collections.abc import Callable

from edgeserve import logs
from edgeserve.clients import Client
from edgeserve.hosts.run import Ended
from edgeserve.hosts.runs import Runs
from edgeserve.messages import Event, Request, TokenEvent
from edgeserve.processes import codec
from edgeserve.processes.frames import Channel, Kind
from edgeserve.residency.pictures import Pictures
from edgeserve.residency.rounds import Place
from edgeserve.residency.weight import WINDOW, weigh
from edgeserve.residency.work import Done, Work
from edgeserve.units import MB

TOGETHER = MB
"""Events of one frame, as ``weigh`` counts them, unless one event weighs more."""


class Answer:
    """One answer that the serving process has asked for; its window is what it may send ahead of the reader.

    ``key`` stands for the key of its client. ``close`` closes the descriptors that came with its request.
    """

    def __init__(
        self,
        number: int,
        request: Request | None,
        log_id: str,
        key: str,
        send: Callable[[int, Event], None],
        close: Callable[[], None],
    ) -> None:
        self.number = number
        self.close = close
        self._sent = self._taken = 0  # each is changed by one thread alone
        self._send = send
        self._pictures = Pictures([] if request is None else [request])
        self.work = Work(request, self._emit, self._room)  # type: ignore[arg-type]  # prepared before it is run
        self.work.place = Place(Client(key))
        self.work.context.run(logs.request_id.set, log_id)

    def end(self) -> None:
        """Close the descriptors, and let go of the request: while the worker rests, nothing collects cycles."""
        self.close()
        self.work.let_go()

    def taken(self, size: int) -> None:
        """The reader has taken so many bytes. On the main thread."""
        self._taken += size

    def _emit(self, item: Event | Done) -> None:
        if not isinstance(item, Done):
            self._pictures.see(0, item)
            self._sent += weigh(item)
            self._send(self.number, item)

    def _room(self) -> bool:
        return self._sent - self._taken < WINDOW


class Outgoing:
    """Events of one round, sent together; long ones apart, because the server takes little JSON in one frame."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._events: list[tuple[int, Event]] = []
        self._weight = 0

    def add(self, number: int, event: Event) -> None:
        weight = weigh(event)
        if self._events and self._weight + weight > TOGETHER:
            self.flush()
        self._events.append((number, event))
        self._weight += weight

    def flush(self) -> None:
        if self._events:
            writer = codec.Writer()
            head = [(number, _short(event, writer)) for number, event in self._events]
            self._events.clear()
            self._weight = 0
            self._channel.send(Kind.EVENTS, 0, head, writer.body)


def _short(event: Event, writer: codec.Writer) -> object:
    """A token is its text alone: there are many of them."""
    return event.text if isinstance(event, TokenEvent) and not event.logprobs else writer.write(event)


class GuestRuns(Runs):
    """Sends the events of each round before the step that follows it."""

    passes_all = True  # to the serving process

    def __init__(self, flush: Callable[[], None]) -> None:
        super().__init__(lambda: None, time.monotonic)
        self._flush = flush

    def advance(self) -> tuple[list[Ended], bool]:
        try:
            return super().advance()
        finally:
            self._flush()
