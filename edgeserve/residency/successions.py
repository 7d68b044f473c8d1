"""Models whose engine is being replaced, and the requests that wait for the new one. The event loop's thread only."""

from __future__ import annotations

import asyncio
import contextlib
from collections import Counter
from collections.abc import Iterator

from edgeserve.errors import Busy, ShuttingDown

MOST_WAIT = 32
"""Requests that wait for one model."""


class Successions:
    def __init__(self, most: int = MOST_WAIT) -> None:
        self._most = most
        self._under_way: dict[str, asyncio.Event] = {}
        self._waiting: Counter[str] = Counter()
        self._closed = False

    def __contains__(self, model: object) -> bool:
        return model in self._under_way

    @contextlib.contextmanager
    def under_way(self, model: str) -> Iterator[None]:
        """Brackets one replacement. There is one a model at a time."""
        self._under_way[model] = over = asyncio.Event()
        try:
            yield
        finally:
            del self._under_way[model]
            over.set()

    async def over(self, model: str) -> None:
        """Wait until no replacement of the model is under way. Raises Busy, and ShuttingDown when the server ends."""
        while (event := self._under_way.get(model)) is not None:
            self._check_open()
            if self._waiting[model] >= self._most:
                text = f"{model} is being replaced, and {self._most} requests wait for it already; try again later"
                raise Busy(text, retry_after=5)
            self._waiting[model] += 1
            try:
                await event.wait()
            finally:
                self._waiting[model] -= 1
            self._check_open()

    def close(self) -> None:
        """End all waits: the server takes no new requests."""
        self._closed = True
        for event in self._under_way.values():
            event.set()

    @property
    def closed(self) -> bool:
        return self._closed

    def _check_open(self) -> None:
        if self._closed:
            raise ShuttingDown("the server is shutting down and takes no new requests", retry_after=5)
