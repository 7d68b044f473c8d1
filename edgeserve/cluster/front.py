"""The server of the door: HTTP and WebSockets with the deadlines and bounds of a node's own server.

Ray's proxy has none of them. It also reads an answer as fast as the node makes it, and keeps what its client does not
read.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Iterator

from uvicorn.server import Server

from edgeserve import logs
from edgeserve.cluster.door import Door
from edgeserve.config import ServerSettings
from edgeserve.connections import LOOK_SECONDS, Connections, Patience, most, raise_descriptors
from edgeserve.errors import ConfigError
from edgeserve.protocols.reading import Reading
from edgeserve.protocols.uvicorn_config import uvicorn_config

END_SECONDS = 15
"""Time in which requests under way may end with the door."""
BACKLOG = 1024
"""Connections that the system queues until the door accepts them."""


class Front(Server):
    """Serves a door within an event loop that runs. The process keeps its signals."""

    def __init__(self, door: Door, patience: Patience | None = None) -> None:
        self._connections = Connections(most(ServerSettings().max_connections, raise_descriptors()))
        shared = {"connections": self._connections, "patience": patience or Patience(), "reading": Reading()}
        super().__init__(uvicorn_config(door, shared, None, END_SECONDS))
        self._serving: asyncio.Task[None] | None = None

    @property
    def alive(self) -> bool:
        """Whether the front accepts requests."""
        return self._serving is not None and not self._serving.done() and not self.should_exit

    async def open(self, listener: socket.socket) -> None:
        """Accept requests on a bound socket, which the front closes. Raises ConfigError."""
        self._serving = asyncio.create_task(self._serve_and_look(listener))
        while not self.started:
            if self._serving.done():
                raise ConfigError(f"the door cannot serve: {self._serving.exception()!r}")
            await asyncio.wait([self._serving], timeout=0.05)

    async def close(self) -> None:
        """Let requests under way end, within ``END_SECONDS``. Idempotent."""
        self.should_exit = True
        if self._serving is not None:
            await asyncio.wait([self._serving])

    async def _serve_and_look(self, listener: socket.socket) -> None:
        looking = asyncio.create_task(self._look())
        try:
            with contextlib.closing(listener):
                await self.serve([listener])
        finally:
            looking.cancel()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        for one in sockets or ():
            one.listen(BACKLOG)  # asyncio listened with its own, smaller backlog

    async def _look(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            self._connections.look()
            logs.tell_repeated()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield
