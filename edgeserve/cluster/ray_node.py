"""The replica of a node on Ray Serve: a whole server as a child, its state, its health, and leases on it."""

from __future__ import annotations

import asyncio
import dataclasses
import os
from collections.abc import AsyncIterator, Sequence
from typing import Any

from edgeserve.cluster.child import Child, serve_command
from edgeserve.cluster.question import Question
from edgeserve.cluster.reader import SECONDS, make_client
from edgeserve.cluster.scale import burden
from edgeserve.cluster.snapshot import read_node
from edgeserve.config import ServerSettings
from edgeserve.errors import EdgeserveError
from edgeserve.settings import ENV_PREFIX

REPORTS = ("/memory/stats", "/memory/models")
CONNECTIONS = 4 * ServerSettings().max_connections
"""Connections of a node. Half of them may come from one address, and all clients of the door come from its own.

The door has ``max_connections``, and one to a node for each. On the head, the requests of the replica come from the
same address: without a place for these, Ray would end the node.
"""


class NodeReplica:
    """One replica a node. Ray starts it, asks for its health, restarts it, and counts its leases.

    ``key``: the key of the nodes. ``command``: the server, as a test replaces it; without one, this edgeserve with the
    environment in which Ray was started on the node.
    """

    def __init__(self, key: str = "", command: Sequence[str] = ()) -> None:
        self._child = Child(tuple(command) or serve_command(), _environ(key))
        self._client = make_client(key)

    async def record_routing_stats(self) -> dict[str, Any]:
        """The state of the node, as its server reports it; the router reads it (``read_node``)."""
        stats, models = [(await self._get(path)).json() for path in REPORTS]
        return {"stats": stats, "models": models, "url": self._child.url}

    async def record_autoscaling_stats(self) -> dict[str, float]:
        """The figures of ``scale``."""
        report = await self.record_routing_stats()
        return dataclasses.asdict(burden(read_node(self._child.url, report["stats"], report["models"])))

    async def check_health(self) -> None:
        """Raises EdgeserveError when the server has ended or fails; Ray starts another replica then."""
        if not self._child.alive:
            raise EdgeserveError("the server of this node has ended")
        await self._get("/v1/health")

    async def _get(self, path: str) -> Any:
        answer = await self._client.get(self._child.url + path, timeout=5 * SECONDS)
        if answer.status_code != 200:
            raise EdgeserveError(f"{self._child.url}{path} answered {answer.status_code}: {answer.text[:200]}")
        return answer

    async def lease(self, question: Question) -> AsyncIterator[str]:
        """The address of the server, and then nothing until the caller cancels: the lease of one request.

        ``question`` chose this node in the router.
        """
        yield self._child.url
        await asyncio.Event().wait()

    def __del__(self) -> None:
        """Ray calls this when the replica ends in peace. A replica that is killed takes its child along by the pipe."""
        if child := getattr(self, "_child", None):
            child.stop()


def _environ(key: str) -> dict[str, str]:
    """Variables for the server, beside those in which Ray was started."""
    environ = {f"{ENV_PREFIX}API_KEY": key} if key else {}
    name = f"{ENV_PREFIX}MAX_CONNECTIONS"
    return environ if os.environ.get(name) else {**environ, name: str(CONNECTIONS)}
