"""The port for Wyoming beside the one for HTTP: its address, who may reach it, and its announcement."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping
from typing import Any

from starlette.datastructures import State
from uvicorn.server import ServerState

from edgeserve.announcement import Announcement
from edgeserve.api.auth import is_loopback
from edgeserve.api.bodies import Bodies
from edgeserve.api.wyoming.dialogue import Dialogue
from edgeserve.api.wyoming.memory import Memory
from edgeserve.api.wyoming.services import Services
from edgeserve.config import Config
from edgeserve.connections import ACCEPTED_AT_ONCE, BACKLOG
from edgeserve.errors import ConfigError
from edgeserve.listening import listen
from edgeserve.protocols.rota import Rota
from edgeserve.protocols.wyoming import WyomingConnection
from edgeserve.units import MB

log = logging.getLogger("edgeserve.server")

MOST_EVENTS = 8 * MB
"""A quarter of the bytes that the events of all connections may take together. One client has half of them."""


def bind(config: Config, *, insecure: bool) -> socket.socket:
    """The socket of the port that the settings name.

    Raises ConfigError for a port that cannot be had, and for one that other machines could use: the protocol has no
    keys. ``insecure`` allows it.
    """
    listener = listen(config.server.host, config.server.wyoming, "--wyoming")
    bound = listener.getsockname()[0]
    if not is_loopback(bound):
        if not insecure:
            listener.close()
            raise ConfigError(
                f"listening on {bound} port {config.server.wyoming} for Wyoming, which has no keys, would let whoever "
                f"reaches this machine use it: say with --insecure that it is wanted, or leave --wyoming out"
            )
        log.warning("Wyoming has no keys: whoever reaches %s port %d can use it", bound, config.server.wyoming)
    return listener


class WyomingPort:
    """Accepts connections of ``listener`` for the application whose ``state`` is given."""

    def __init__(self, listener: socket.socket, state: State, idle_seconds: float) -> None:
        self._listener = listener
        self._services = Services(state.pool, state.sessions, state.limits, Memory())
        self._bodies = Bodies(MOST_EVENTS, 0.0, traffic=state.pool.governor.accounts.traffic)
        self._rota = Rota()
        self._idle_seconds = idle_seconds
        self._announcement = Announcement(*listener.getsockname()[:2])

    async def open(self, state: ServerState, shared: Mapping[str, Any]) -> asyncio.Server:
        """Accept connections. ``shared``: what connections of all protocols share. Raises OSError."""
        services = self._services

        def connection() -> WyomingConnection:
            return WyomingConnection(
                lambda client, send: Dialogue(services, client, send),
                state,
                self._bodies,
                self._rota,
                self._idle_seconds,
                **shared,
            )

        loop = asyncio.get_running_loop()
        server = await loop.create_server(connection, sock=self._listener, backlog=ACCEPTED_AT_ONCE)
        self._listener.listen(BACKLOG)
        log.info("Wyoming is spoken on %s port %d", *self._listener.getsockname()[:2])
        await self._announcement.begin()
        return server

    async def close(self) -> None:
        """Withdraw the announcement."""
        await self._announcement.end()
