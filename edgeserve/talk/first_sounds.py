"""Answers of all conversations that have no sound yet. Those that are ahead of their listeners let them go first."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

AHEAD_SECONDS = 1.5
"""Sound that a listener still has, with which an answer may let others go first: several clauses of others."""


class FirstSounds:
    """One event loop uses the object."""

    def __init__(self) -> None:
        self._waiting = 0
        self._none = asyncio.Event()
        self._none.set()

    @contextlib.contextmanager
    def waiting(self) -> Iterator[FirstSound]:
        """An answer without sound, until it has its first or the block ends."""
        one = FirstSound(self)
        self._count(1)
        try:
            yield one
        finally:
            one.came()

    async def give_way(self, ahead: float) -> None:
        """Wait while others have no sound. ``ahead``: seconds of sound that the listener has not heard yet."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(max(0.0, ahead - AHEAD_SECONDS)):
                await self._none.wait()

    def _count(self, change: int) -> None:
        self._waiting += change
        if self._waiting:
            self._none.clear()
        else:
            self._none.set()


class FirstSound:
    """The first sound of one answer."""

    def __init__(self, all_of: FirstSounds) -> None:
        self._all, self._is_there = all_of, False

    def came(self) -> None:
        """The listener has something to hear. Idempotent."""
        if not self._is_there:
            self._is_there = True
            self._all._count(-1)
