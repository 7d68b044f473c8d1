"""A lease: the right to use one engine, and the requests that run under it."""

from __future__ import annotations

import contextlib
import functools
import threading
from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from types import TracebackType

from edgeserve.clients import NOBODY, Client
from edgeserve.engine import ModelSpec
from edgeserve.errors import Cancelled, SlowReader
from edgeserve.figures import account
from edgeserve.figures.answer import Answer, Times
from edgeserve.messages import Event, Request, SlotRequest, TextRequest
from edgeserve.residency.gate import Gate
from edgeserve.residency.mailbox import Deliveries, Mailbox
from edgeserve.residency.pictures import Pictures
from edgeserve.residency.rounds import Place
from edgeserve.residency.work import Done, Work

UNCOUNTED = (SlotRequest, TextRequest)
"""Requests that make no model compute."""


class Lease:
    """One use of an engine; the engine does not step down meanwhile.

    The lease ends with its work, not with its reader: a finished answer waits in its mailbox and holds no engine.
    ``begun`` as in ``Work``. ``client``: the client for which the gate was asked.
    """

    def __init__(
        self,
        gate: Gate,
        deliveries: Deliveries,
        begun: Callable[[Request], None] = lambda request: None,
        client: Client = NOBODY,
    ) -> None:
        self._gate = gate
        self._deliveries = deliveries
        self._begun = begun
        self._place = Place(client)
        self._account = account.current.get()
        self._lock = threading.Lock()
        self._mailbox: Mailbox | None = None
        self._behind: deque[Work] = deque()
        self._running: list[Work] = []
        self._released = self._ended = False

    @property
    def spec(self) -> ModelSpec:
        return self._gate.spec

    async def run(self, request: Request) -> AsyncIterator[Event]:
        """Events of one request, in order. Raises EdgeserveError, at the first event or later."""
        async with contextlib.aclosing(self.run_all([request])) as events:
            async for _, event in events:
                yield event

    async def run_all(
        self, requests: Sequence[Request], *, apart: bool = False
    ) -> AsyncGenerator[tuple[int, Event], None]:
        """Events of several requests, each with the number of its request; the first error ends all. Once a lease.

        The first request goes ahead, so that the engine has read a shared prompt when the others begin. The requests
        run beside each other if the engine can, and one after the other if ``apart``.
        """
        if self._mailbox is not None or self._released:
            raise RuntimeError("a lease runs its requests once")
        mailbox = self._mailbox = Mailbox(self._deliveries, self._gate.wake)
        left, pictures = len(requests), Pictures(requests)
        for number, request in enumerate(requests):
            work = Work(request, lambda item: None, mailbox.room, self._begun, self._place)
            work.keep, work.spare = mailbox.rest, mailbox.spare
            work.emit = functools.partial(self._emit, mailbox, number, work, Answer(self._gate.clock), pictures, apart)
            self._behind.append(work)
        item: Event | Done | None = None
        try:
            self._start(1)
            while left:
                number, item = await mailbox.get()
                if not isinstance(item, Done):
                    yield number, item
                elif item.error is not None:
                    raise item.error
                else:
                    left -= 1
        finally:
            mailbox.close()
            self._cancel()
            item = None  # its error knows this frame, and would keep the requests until a collection

    async def release(self) -> None:
        """Cancel the requests that still run; the lease ends with the last of them. Idempotent."""
        self._released = True
        if self._mailbox is not None:
            # A reader may wait for an event of work that is queued or between two tokens: it need not wait on.
            self._mailbox.put(0, Done(Cancelled("the request was cancelled")))
        self._cancel()

    async def __aenter__(self) -> Lease:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.release()

    def _start(self, count: int) -> None:
        """Submit the next ``count`` requests. The lease ends when none is left and none is under way. Any thread."""
        with self._lock:
            starting = [self._behind.popleft() for _ in range(min(count, len(self._behind)))]
            self._running += starting
            over = not self._running and not self._behind and not self._ended
            self._ended |= over
        for work in starting:
            self._gate.submit(work)
        if over:
            self._gate.release(self._place.client)

    def _emit(
        self,
        mailbox: Mailbox,
        number: int,
        work: Work,
        answer: Answer,
        pictures: Pictures,
        apart: bool,
        item: Event | Done,
    ) -> None:
        """Put an event into the mailbox, on the host's thread. The end of one request starts the next.

        A reader that sees the last end finds the lease ended.
        """
        if isinstance(item, Done):
            self._count(work, answer, item)
            work.let_go()
            with self._lock:
                self._running.remove(work)
            if item.error is not None:
                if isinstance(item.error, SlowReader):
                    mailbox.drop()
                mailbox.put(number, item)  # before the ends of those that it cancels
                self._cancel()
                return
            self._start(1)
        else:
            answer.see(item)
            pictures.see(number, item)
            if not apart and self._behind:
                self._start(len(self._behind))
        mailbox.put(number, item)

    def _count(self, work: Work, answer: Answer, done: Done) -> None:
        """Count the answer, before its reader sees the end."""
        if not isinstance(work.request, UNCOUNTED):
            now = self._gate.clock()
            arrived = now if work.arrived is None else work.arrived
            self._gate.figures.ended(self.spec, answer, Times(arrived, work.started, now), done.error, self._account)

    def _cancel(self) -> None:
        with self._lock:
            for work in self._behind:
                work.let_go()
            self._behind.clear()
            running = list(self._running)
        for work in running:
            self._gate.cancel(work)
        self._start(0)
