"""Turns: one at a time for each client, a few in all, clients in rounds, and urgent ones with a head start."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable

from edgeserve import clients
from edgeserve.dataclass import dataclass

Urgent = Callable[[], bool]
HEAD_START = 4
"""Turns by which an urgent waiter goes ahead. Another client's waiter that waits for more turns goes before it."""
AT_ONCE = 3
"""Clients whose turns are under way at the same time, at most. Others have room in the engine's queue, too."""


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
        self._under_way: set[tuple[str, ...]] = set()
        """Clients with a turn."""

    @contextlib.asynccontextmanager
    async def turn(self, urgent: Urgent) -> AsyncIterator[None]:
        client = clients.current.get().group
        if client in self._under_way or len(self._under_way) >= AT_ONCE:
            await self._wait(_Waiter(client, urgent, self._ended, asyncio.get_running_loop().create_future()))
        self._under_way.add(client)
        try:
            yield
        finally:
            self._ended += 1
            self._latest[client] = self._ended
            self._pass_on(client)

    async def _wait(self, waiter: _Waiter) -> None:
        self._waiting.append(waiter)
        try:
            await waiter.called
        except asyncio.CancelledError:
            if not waiter.called.cancelled():  # called, and gone before it could come
                self._pass_on(waiter.client)
            raise

    def _pass_on(self, client: tuple[str, ...]) -> None:
        """Give the turn of a client to the next one."""
        self._under_way.discard(client)
        self._waiting = [one for one in self._waiting if not one.called.done()]
        self._latest = {one.client: self._latest.get(one.client, 0) for one in self._waiting}
        able = [one for one in self._waiting if one.client not in self._under_way]
        if able:
            following = min(able, key=self._rank)
            self._under_way.add(following.client)
            following.called.set_result(None)

    def _rank(self, one: _Waiter) -> int:
        return max(one.since, self._latest[one.client]) - (HEAD_START if one.urgent() else 0)
