"""The view that a server has of its peers: one look at them serves all who ask within a second."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from edgeserve.cluster.fresh import Fresh
from edgeserve.cluster.peers import Peer
from edgeserve.cluster.reader import Watch, make_client
from edgeserve.cluster.snapshot import Snapshot

if TYPE_CHECKING:
    import httpx


class View:
    """The peers of ``[server] peers``. Without peers it asks nobody. For one event loop. ``clock`` in seconds."""

    def __init__(
        self,
        peers: Sequence[Peer],
        key: str = "",
        client: Callable[[str], httpx.AsyncClient] = make_client,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._client = client(key) if peers else None
        self._watch = Watch(peers, self._client) if self._client is not None else None
        self._fresh = Fresh(self._ask, clock)

    async def look(self) -> Mapping[str, Any]:
        """The body of GET /cluster/status (docs/cluster.md), as ``Fresh`` has it. A silent node takes 2 s."""
        return await self._fresh.get()

    async def _ask(self) -> Mapping[str, Any]:
        if self._watch is None:
            return Snapshot().as_json()
        return (await self._watch.look()).as_json(self._watch.problems)

    async def close(self) -> None:
        if self._client is not None:
            await self._client.aclose()
