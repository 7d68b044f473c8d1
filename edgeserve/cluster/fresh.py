"""One look at all nodes serves all who ask within a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

FRESH = 1.0
"""Seconds for which a look is not repeated, however many clients ask."""


class Fresh:
    """The latest result of ``look``, at most ``FRESH`` old. For one event loop. ``clock`` in seconds."""

    def __init__(
        self, look: Callable[[], Awaitable[Mapping[str, Any]]], clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._look, self._clock = look, clock
        self._looking = asyncio.Lock()
        self._looked = -FRESH
        self._found: Mapping[str, Any] = {}

    async def get(self) -> Mapping[str, Any]:
        """Raises the errors of ``look``; the next who asks looks again then."""
        async with self._looking:
            if self._clock() - self._looked >= FRESH:
                self._found = await self._look()
                self._looked = self._clock()
            return self._found
