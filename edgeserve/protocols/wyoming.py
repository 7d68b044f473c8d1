"""Wyoming on one connection: events in their order, with the deadlines and bounds of all connections."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import Any

from uvicorn.server import ServerState

from edgeserve import clients
from edgeserve.api.auth import client_of
from edgeserve.api.bodies import Bodies, Body
from edgeserve.api.wyoming.dialogue import Dialogue, failure
from edgeserve.api.wyoming.events import Event, Parser, Received
from edgeserve.api.wyoming.services import Send
from edgeserve.clients import Client
from edgeserve.errors import Busy, Cancelled, EdgeserveError, ShuttingDown
from edgeserve.protocols.bounded import Bounded
from edgeserve.protocols.rota import Rota

log = logging.getLogger("edgeserve.wyoming")

HELD_BYTES, HELD_EVENTS = 128 << 10, 64
"""Events that wait for the one under way, and their bytes, beyond which the server reads no more of a client."""
PAUSE_SECONDS = 1.0
"""Seconds without an event after which an utterance gives its place to a new connection where places are short."""

Make = Callable[[Client, Send], Dialogue]


class WyomingConnection(Bounded):
    """One connection. ``make`` makes its dialogue. It ends after ``idle_seconds`` without an event.

    ``bodies`` counts the events that are here, and cuts connections where all of them take too much memory. ``rota``
    gives the events of all connections their turns.
    """

    def __init__(
        self, make: Make, state: ServerState, bodies: Bodies, rota: Rota, idle_seconds: float, **shared: Any
    ) -> None:
        super().__init__(**shared)
        self._make, self._state, self._bodies, self._rota, self._idle_seconds = make, state, bodies, rota, idle_seconds
        self._parser = Parser()
        self._inbox: deque[Received] = deque()
        self._held = self._under_way = 0
        self._body: Body | None = None
        self._news, self._writable = asyncio.Event(), asyncio.Event()
        self._writable.set()
        self._since = self.admitted.clock()
        self._proven = self._working = self._lost = False
        self._ending: EdgeserveError | None = None
        self._dialogue: Dialogue | None = None
        self._task: asyncio.Task[None] | None = None

    # asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = self.bound(transport)
        if not self.admitted.admit(self):
            text = f"{len(self.admitted)} connections are open, and this server takes no more of yours now"
            self.transport.write(failure(Busy(f"{text}; close some, or raise max_connections in models.toml")).write())
            self.transport.close()
            return
        self._body = self._bodies.open(self._client)
        self._body.on_cut = self.cut
        self._state.connections.add(self)  # type: ignore[arg-type]  # Uvicorn asks no more of them than this one has
        self._task = asyncio.get_running_loop().create_task(self._serve())
        self._state.tasks.add(self._task)
        self._task.add_done_callback(self._served)

    def data_received(self, data: bytes) -> None:
        if self._ending is not None or self._task is None:
            return
        if not self._parser.has_part:  # a deadline counts from the first byte of an event
            self._since = self.admitted.clock()
        try:
            for event in self._parser.feed(data):
                self._proven, self._since = True, self.admitted.clock()
                self._inbox.append(event)
                self._held += event.size
        except EdgeserveError as error:
            self._ending, self._parser = error, Parser()
        try:
            self._count()
        except EdgeserveError as error:
            self._ending, self._parser, self._held = error, Parser(), 0
            self._inbox.clear()
            self._count()
        self.plain = self._parser.missing
        self._news.set()
        if not self.may_read:
            self.transport.pause_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        self._lost = True
        self._state.connections.discard(self)
        self._writable.set()
        if self._task is None or self._task.done():
            self._leave()
        else:
            self._task.cancel()
        super().connection_lost(exc)

    def _served(self, task: asyncio.Task[None]) -> None:
        """The dialogue has ended, perhaps before its first step."""
        self._state.tasks.discard(task)
        if self._lost:
            self._leave()

    def _leave(self) -> None:
        """Give back what the connection took of others. Idempotent."""
        self.admitted.remove(self)
        if self._body is not None:
            self._bodies.close(self._body)

    def pause_writing(self) -> None:
        self._writable.clear()
        self.transport.pause_reading()

    def resume_writing(self) -> None:
        self._writable.set()
        self.go_on_reading()

    # The registry of connections calls these

    @property
    def may_read(self) -> bool:
        full = len(self._inbox) >= HELD_EVENTS or self._held >= HELD_BYTES
        return self._ending is None and not full and self._writable.is_set()

    def idle(self, now: float) -> tuple[int, float] | None:
        """The order in which connections give way, and since when; None for a busy connection.

        0. connections that never sent an event, or that are closed
        1. connections between two events
        2. utterances and texts that pause
        3. clients that do not read
        """
        if self._lost:
            return None
        if not self._proven or self._ending is not None:
            return 0, self._since
        if self._working or self._inbox:
            return self.stalled(now)
        if not self._is_open:
            return 1, self._since
        return (2, self._since) if now - self._since >= PAUSE_SECONDS else None

    def check(self, now: float) -> None:
        self.check_reader(now)
        if self.transport.is_closing():
            return
        if not self.may_read and self.has_gone():
            self.transport.abort()
        elif self._working or self._inbox:
            return
        elif now - self._since >= (self._idle_seconds if self._proven and not self._has_part else self.patience.head):
            log.debug("%s sent no event for too long: its connection was closed", self.peer)
            self.transport.close()

    @property
    def _has_part(self) -> bool:
        return self._parser.has_part

    @property
    def _is_open(self) -> bool:
        return self._dialogue is not None and self._dialogue.open

    def shutdown(self) -> None:
        """End with the server: at once, or after the answer under way."""
        if self._ending is None:
            self._ending = ShuttingDown("the server is shutting down", retry_after=5)
        self._news.set()

    # The dialogue

    @property
    def _client(self) -> Client:
        return client_of({"client": (self.peer, 0)})

    @property
    def _network(self) -> str:
        return clients.client_of(self.peer)

    def _count(self) -> None:
        """Count the events that are here, and the part of one. Raises Busy where they have become too many."""
        if self._body is not None:
            self._body.keep(self._parser.held + self._held + self._under_way)

    async def _serve(self) -> None:
        clients.current.set(self._client)
        dialogue = self._dialogue = self._make(self._client, self._send)
        try:
            while (event := await self._next()) is not None:
                await dialogue.take(event)
                del event  # else it would stay until the next one comes
                self._working, self._under_way, self._since = False, 0, self.admitted.clock()
                self._count()
                await self._rota.turn(self._network)  # an inbox that is not empty gives nobody else a turn
            if self._ending is not None and (self._is_open or not isinstance(self._ending, ShuttingDown)):
                await self._send(failure(self._ending))
        except Cancelled:
            log.debug("%s has gone", self.peer)
        except Exception:
            log.exception("an event of %s failed unforeseen; the connection was closed", self.peer)
        finally:
            await dialogue.close()
            self.transport.close()

    async def _next(self) -> Received | None:
        """The next event; None where no more is to be answered."""
        while not self._inbox:
            if self._ending is not None or self._lost:
                return None
            self._news.clear()
            await self._news.wait()
        if self._lost or isinstance(self._ending, ShuttingDown):
            return None  # lost: the end of a speech may have swallowed that of this task
        event = self._inbox.popleft()
        self._working = True
        # A ping asks for nothing; all else counts as HTTP's requests do, which keep a server from an idle end.
        self._state.total_requests += event.type != "ping"
        self._held, self._under_way = self._held - event.size, event.size
        self.go_on_reading()
        return event

    async def _send(self, event: Event) -> None:
        """Send an event once the client has read enough of those before it."""
        await self._writable.wait()
        if self._lost or self.transport.is_closing():
            raise Cancelled("the client has gone")
        self.transport.write(event.write())
