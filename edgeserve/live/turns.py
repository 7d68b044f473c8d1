"""Turns: one at a time, between clients in rounds, and urgent ones with a head start."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from edgeserve import clients
from edgeserve.dataclass import dataclass

Urgent = Callable[[], bool]
HEAD_START = 4
"""Turns by which an urgent waiter goes ahead. Another client's waiter that waits for more turns goes before it."""


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    """``client``: its name. ``since``: turns that had ended when it came."""

    client: tuple[str, ...]
    urgent: Urgent
    since: int
    called: asyncio.Future[None]


class Turns:
    """A queue of turns. One event loop uses the object.

    The client whose latest turn ended first is next, or who has come first since. A turn that ends asks each waiter
    whether it is urgent, since that may have changed while it waited.
    """

    def __init__(self) -> None:
        self._waiting: list[_Waiter] = []
        self._ended = 0
        self._latest: dict[tuple[str, ...], int] = {}
        """Number of the latest turn of each client that waits."""
        self._taken = False

    @contextlib.asynccontextmanager
    async def turn(self, urgent: Urgent) -> AsyncIterator[None]:
        client = clients.current.get().groups[-1]
        if self._taken:
            await self._wait(_Waiter(client, urgent, self._ended, asyncio.get_running_loop().create_future()))
        self._taken = True
        try:
            yield
        finally:
            self._ended += 1
            self._latest[client] = self._ended
            self._pass_on()

    async def _wait(self, waiter: _Waiter) -> None:
        self._waiting.append(waiter)
        try:
            await waiter.called
        except asyncio.CancelledError:
            if not waiter.called.cancelled():  # called, and gone before it could come
                self._pass_on()
            raise

    def _pass_on(self) -> None:
        self._waiting = [one for one in self._waiting if not one.called.done()]
        self._taken = bool(self._waiting)
        self._latest = {one.client: self._latest.get(one.client, 0) for one in self._waiting}
        if self._waiting:
            min(self._waiting, key=self._rank).called.set_result(None)

    def _rank(self, one: _Waiter) -> int:
        return max(one.since, self._latest[one.client]) - (HEAD_START if one.urgent() else 0)
