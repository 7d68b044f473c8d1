"""Events on their way to one client, bounded in bytes: whoever makes more waits for the client."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

MAX_BYTES = 256 << 10
"""Bytes that wait for the client before makers of events wait: 4 s of sound."""


class Outbox:
    """One task sends; any number of tasks put events in. One event loop uses the object."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self._bytes = 0
        self._news, self._free = asyncio.Event(), asyncio.Event()
        self._free.set()

    def put(self, event: dict[str, Any]) -> None:
        text = json.dumps(event, ensure_ascii=False)
        self._waiting.append(text)
        self._bytes += len(text)
        self._news.set()
        if self._bytes > MAX_BYTES:
            self._free.clear()

    async def room(self) -> None:
        """Wait until fewer than ``MAX_BYTES`` wait for the client. Gives other tasks a turn in any case."""
        await asyncio.sleep(0)
        await self._free.wait()

    async def run(self, send: Callable[[str], Awaitable[None]]) -> None:
        """Send what comes, until cancelled."""
        while True:
            await self._news.wait()
            while self._waiting:
                text = self._waiting.popleft()
                await send(text)
                self._bytes -= len(text)
                if self._bytes <= MAX_BYTES:
                    self._free.set()
            self._news.clear()
