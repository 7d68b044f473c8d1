"""The work of the server, as its attendants see it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any, Protocol

from edgeserve.connections import LOOK_SECONDS, Connections

LAST_SECONDS = 60.0
"""Longest wait for requests of the last moment: a stream without an end would keep all later clients waiting."""


class Ending(Protocol):
    """The part of the server that this room needs: Uvicorn's attributes, and the registry of connections."""

    servers: Any
    server_state: Any
    should_exit: bool
    connections: Connections


class Used(Protocol):
    """The part of the application's state that this room needs."""

    pool: Any

    def used(self, name: str, act: Callable[[Any], Any]) -> Any: ...


class Activity:
    """``state``: the application's."""

    def __init__(self, server: Ending, state: Used) -> None:
        self._server = server
        self._state = state
        self._ends: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        """Whether a request, a live session or a pull is under way."""
        return bool(
            self._server.connections.working
            or self._state.used("sessions", len)
            or self._state.used("pulls", lambda pulls: pulls.running)
        )

    @property
    def asked(self) -> int:
        """Requests so far."""
        return int(self._server.server_state.total_requests)

    @property
    def failing(self) -> bool:
        """Whether a thread of an engine has ended, so that requests would hang."""
        return bool(self._state.pool.failing())

    def end_idle(self) -> None:
        """Accept no more connections, and end when the last request has ended, or after ``LAST_SECONDS``.

        A connection that was accepted in this very moment is served. Later ones wait in the socket, where systemd holds
        it, for the next server.
        """
        for one in self._server.servers:
            one.close()
        self._ends = asyncio.get_running_loop().create_task(self._end())

    async def _end(self) -> None:
        await asyncio.sleep(LOOK_SECONDS)  # a connection that was accepted sends its request
        with contextlib.suppress(TimeoutError):  # the server drains what is left, as after a signal
            async with asyncio.timeout(LAST_SECONDS):
                while self._server.connections.working:  # noqa: ASYNC110 - no connection reports its end
                    await asyncio.sleep(LOOK_SECONDS)
        self._server.should_exit = True
