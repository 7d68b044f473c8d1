"""Turns for the events of many connections: one turn of the event loop works on few of them, and clients go round."""

from __future__ import annotations

import asyncio
from collections import deque

AT_ONCE = 2
"""Events in one turn of the event loop. Each may take a millisecond to answer."""


class Rota:
    """The turns of one event loop."""

    def __init__(self) -> None:
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}
        """Waiting connections by client, the next client first."""
        self._given = 0
        self._pass_is_due = False

    async def turn(self, client: str) -> None:
        """Wait for a turn of the client. At once where this turn of the event loop has one left."""
        if not self._waiting and self._given < AT_ONCE:
            self._given += 1
            self._expect()
            await asyncio.sleep(0)
            return
        future = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(client, deque()).append(future)
        await future

    def _expect(self) -> None:
        if not self._pass_is_due:
            self._pass_is_due = True
            asyncio.get_running_loop().call_soon(self._pass)

    def _pass(self) -> None:
        """Give the turns of the next turn of the event loop. The client's others go behind all other clients."""
        self._pass_is_due, self._given = False, 0
        while self._waiting and self._given < AT_ONCE:
            client, line = next(iter(self._waiting.items()))
            del self._waiting[client]
            future = line.popleft()
            if line:
                self._waiting[client] = line
            if not future.done():  # else its connection is lost
                future.set_result(None)
                self._given += 1
        if self._waiting or self._given:
            self._expect()
