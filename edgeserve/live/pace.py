"""The time that sessions may take of the event loop for their sound, which a client may send faster than it is spoken.

Sessions work one piece at a time. A session that never stops sending pauses behind its pieces, so that all sessions
together leave half of the loop's time to others. Clients share the other half equally, however many sessions they have.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable

from edgeserve import clients
from edgeserve.clients import Groups

LEAST_PAUSE = 0.002
"""Seconds of the shortest pause. Shorter ones add up."""


class LoopTime:
    """The time of an event loop, shared by all sessions. That loop uses the object. ``clock``: seconds of work."""

    def __init__(self, clock: Callable[[], float] = time.thread_time) -> None:
        self.clock = clock
        self.lock = asyncio.Lock()
        self.working: Counter[Groups] = Counter()
        """Sessions of each client that have sound to work on."""

    def sharers(self, groups: Groups) -> int:
        """The number of equal parts of the time, if this client's session gets one: keys, networks, sessions."""
        keys = {key for key, _ in self.working}
        networks = [one for one in self.working if one[0] == groups[0]]
        return len(keys) * len(networks) * self.working[groups]


class Pace:
    """The pace of one session."""

    def __init__(self, loop_time: LoopTime) -> None:
        self._loop_time = loop_time
        self._debt = 0.0

    @contextlib.asynccontextmanager
    async def piece(self) -> AsyncIterator[None]:
        """A turn for some milliseconds of work of the current client, and the pause behind it.

        One of ``n`` sharers pauses ``2 n - 1`` times as long as it works: together they work half of the time at most.
        """
        shared, groups = self._loop_time, clients.current.get().groups
        shared.working[groups] += 1
        try:
            await self._rest()  # behind work that failed: its error did not wait
            async with shared.lock:
                started = shared.clock()
                try:
                    yield
                finally:
                    self._debt += (shared.clock() - started) * (2 * shared.sharers(groups) - 1)
                await asyncio.sleep(0)  # other tasks have their turn before the next session has
            await self._rest()
        finally:
            shared.working -= Counter([groups])  # which drops what has come down to 0

    async def _rest(self) -> None:
        """The pause that is due."""
        if self._debt >= LEAST_PAUSE:
            pause, self._debt = self._debt, 0.0
            await asyncio.sleep(pause)
