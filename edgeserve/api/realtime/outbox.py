"""Events on their way to one client, bounded in bytes: whoever makes more waits for the client."""

from __future__ import annotations

import asyncio
import json
import sys
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Any

MAX_BYTES = 256 << 10
"""Bytes that wait for the client before makers of events wait: 4 s of sound."""


class Outbox:
    """One task sends; any number of tasks put events in. One event loop uses the object."""

    def __init__(self) -> None:
        self._waiting: deque[str] = deque()
        self.held = 0
        """Bytes of events that wait."""
        self._news, self._free = asyncio.Event(), asyncio.Event()
        self._free.set()

    def put(self, event: dict[str, Any]) -> None:
        text = json.dumps(event, ensure_ascii=False)
        self._waiting.append(text)
        self.held += sys.getsizeof(text)
        self._news.set()
        if self.held > MAX_BYTES:
            self._free.clear()

    async def room(self) -> None:
        """Wait until fewer than ``MAX_BYTES`` wait for the client. Gives other tasks a turn in any case."""
        await asyncio.sleep(0)
        await self._free.wait()

    async def run(self, send: Callable[[str], Awaitable[None]], sent: Callable[[], None] = lambda: None) -> None:
        """Send what comes, until cancelled. ``sent`` is called after each event."""
        while True:
            await self._news.wait()
            while self._waiting:
                text = self._waiting.popleft()
                await send(text)
                self.held -= sys.getsizeof(text)
                del text  # the last one would stay until the next comes
                if self.held <= MAX_BYTES:
                    self._free.set()
                sent()
            self._news.clear()
