"""Turns: one at a time, urgent ones first, each kind in the order of arrival."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass

Urgent = Callable[[], bool]


@dataclass(frozen=True, slots=True, eq=False)
class _Waiter:
    urgent: Urgent
    called: asyncio.Future[None]


class Turns:
    """A queue of turns. One event loop uses the object.

    A turn that ends asks each waiter whether it is urgent, since that may have changed while it waited.
    """

    def __init__(self) -> None:
        self._waiting: list[_Waiter] = []
        self._taken = False

    @contextlib.asynccontextmanager
    async def turn(self, urgent: Urgent) -> AsyncIterator[None]:
        if self._taken:
            await self._wait(_Waiter(urgent, asyncio.get_running_loop().create_future()))
        self._taken = True
        try:
            yield
        finally:
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
        if self._waiting:
            chosen = next((one for one in self._waiting if one.urgent()), self._waiting[0])
            chosen.called.set_result(None)
