"""The view that a server has of its peers: one look at them serves all who ask within a second."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgeserve.cluster.peers import Peer
from edgeserve.cluster.reader import Watch, make_client
from edgeserve.cluster.snapshot import Snapshot

if TYPE_CHECKING:
    import httpx

FRESH = 1.0
"""Seconds for which a look is not repeated, however many clients ask."""


class View:
    """The peers of ``[server] peers``. Without peers it asks nobody. For one event loop. ``clock`` in seconds."""

    def __init__(
        self,
        peers: Sequence[Peer],
        key: str = "",
        client: Callable[[str], httpx.AsyncClient] = make_client,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._clock = clock
        self._client = client(key) if peers else None
        self._watch = Watch(peers, self._client) if self._client is not None else None
        self._looking = asyncio.Lock()
        self._looked = -FRESH
        self._body: Mapping[str, Any] = Snapshot().as_json()

    async def look(self) -> Mapping[str, Any]:
        """The body of GET /cluster/status (docs/cluster.md), at most ``FRESH`` old. A silent node takes 2 s."""
        async with self._looking:
            if self._watch is not None and self._clock() - self._looked >= FRESH:
                snapshot = await self._watch.look()
                self._body = snapshot.as_json(self._watch.problems)
                self._looked = self._clock()
            return self._body

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
