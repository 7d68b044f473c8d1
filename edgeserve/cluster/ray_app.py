"""The application of a cluster on Ray Serve: the door on the head, one replica on each node."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Mapping
from typing import Any

from ray import serve
from ray.exceptions import RayError
from ray.serve.config import AutoscalingConfig, AutoscalingContext, AutoscalingPolicy, RequestRouterConfig
from ray.serve.exceptions import RayServeException

from edgeserve import listening
from edgeserve.cluster.door import Door
from edgeserve.cluster.fresh import Fresh
from edgeserve.cluster.front import Front
from edgeserve.cluster.passing import ATTEMPTS
from edgeserve.cluster.question import Question
from edgeserve.cluster.ray_node import NodeReplica
from edgeserve.cluster.ray_router import PlacingRouter
from edgeserve.cluster.scale import JOIN_AFTER, LEAVE_AFTER, Burden, scale
from edgeserve.cluster.snapshot import collect
from edgeserve.dataclass import dataclass
from edgeserve.errors import Busy, EdgeserveError

APP = "edgeserve"
HEAD = "edgeserve_head"
"""The resource that the head of a cluster alone has: the door stands there."""
REPORT_SECONDS = 1.0
"""Time between two reports of a node."""
LEASE_SECONDS = 30.0
"""Longest wait for a node, while all are at critical pressure or none runs."""
MOST_LEASES = 10_000
"""Leases of one node and requests of the door at a time. Nodes refuse by their own queues, long before that."""
FIGURES = ("queue", "pressure", "budget", "used")
"""Names of the figures that a node reports for scaling: the fields of ``Burden``."""

log = logging.getLogger("edgeserve.cluster")


@dataclass(frozen=True, slots=True)
class Plan:
    """A cluster to run: ``least`` to ``most`` nodes, and a door at ``host`` and ``port``. ``key`` and ``owner`` as in
    ``Door``, ``command`` as in ``NodeReplica``. ``join_after`` and ``leave_after`` as in ``scale``, in seconds."""

    host: str
    port: int
    least: int = 1
    most: int = 1
    key: str = ""
    owner: tuple[str, ...] = ()
    command: tuple[str, ...] = ()
    join_after: float = JOIN_AFTER
    leave_after: float = LEAVE_AFTER


class DoorReplica:
    """The door as a replica of Ray Serve. It serves its clients itself; Ray only starts and watches it."""

    async def __init__(self, nodes: Any, plan: Plan) -> None:  # type: ignore[misc]  # Ray awaits it
        """Raises ConfigError for an address that cannot be had."""
        self._leases = nodes.options(stream=True, method_name="lease")
        self._nodes = nodes
        self._front = Front(Door(self._lease, Fresh(self._status).get, plan.key, plan.owner))
        await self._front.open(listening.listen(plan.host, plan.port, "--listen"))

    async def check_health(self) -> None:
        """Raises EdgeserveError when the door has ended; Ray starts another replica then."""
        if not self._front.alive:
            raise EdgeserveError("the door has ended")

    async def __del__(self) -> None:
        """Ray calls this when the replica ends in peace."""
        if front := getattr(self, "_front", None):
            await front.close()

    @contextlib.asynccontextmanager
    async def _lease(self, question: Question) -> AsyncIterator[str]:
        lease, url = await self._placed(question)
        try:
            yield url
        finally:
            lease.cancel()

    async def _placed(self, question: Question) -> tuple[Any, str]:
        """An open lease and its address. A replica that dies while it is asked is left for another. Raises Busy."""
        for _ in range(ATTEMPTS):
            lease = self._leases.remote(question)
            try:
                async with asyncio.timeout(LEASE_SECONDS):
                    return lease, await anext(lease)
            except TimeoutError:
                lease.cancel()
                text = f"no node of the cluster took the request within {LEASE_SECONDS:g} s: try again"
                raise Busy(text, retry_after=5.0) from None
            except (RayError, RayServeException) as problem:
                log.warning("a node was lost while it was asked: %r", problem)
            except BaseException:
                lease.cancel()
                raise
        raise Busy("the nodes of the cluster were lost while they were asked: try again", retry_after=1.0)

    async def _status(self) -> Mapping[str, object]:
        reports = await self._nodes.broadcast("record_routing_stats").results_async(return_exceptions=True)
        return collect(reports)


def scaling(context: AutoscalingContext) -> tuple[int, dict[str, Any]]:
    """Ray's policy: ``scale`` over the figures of the nodes, which Ray averages over the last half minute.

    Ray takes the result for what is wanted now, and waits ``join_after`` or ``leave_after`` itself.
    """
    figures = context.aggregated_metrics or {}
    names = set[Any]().union(*(figures.get(one, {}) for one in FIGURES))
    nodes = [Burden(*(figures.get(one, {}).get(name, 0.0) for one in FIGURES)) for name in names]
    least, most = context.capacity_adjusted_min_replicas, context.capacity_adjusted_max_replicas
    return scale(nodes, least, most) if nodes else context.target_num_replicas, {}


def application(plan: Plan) -> Any:
    """The application for ``serve.run``."""
    router = RequestRouterConfig(
        request_router_class=PlacingRouter,
        request_routing_stats_period_s=REPORT_SECONDS,
        request_routing_stats_timeout_s=5,
    )
    nodes = serve.deployment(
        NodeReplica,
        name="node",
        max_replicas_per_node=1,
        max_ongoing_requests=MOST_LEASES,
        health_check_period_s=2.0,
        health_check_timeout_s=10.0,
        graceful_shutdown_timeout_s=20.0,
        ray_actor_options={"num_cpus": 0},
        request_router_config=router,
        autoscaling_config=AutoscalingConfig(
            min_replicas=plan.least,
            max_replicas=plan.most,
            initial_replicas=plan.least,
            upscale_delay_s=plan.join_after,
            downscale_delay_s=plan.leave_after,
            policy=AutoscalingPolicy(policy_function=scaling),
        ),
    )
    door = serve.deployment(
        DoorReplica,
        name="door",
        max_ongoing_requests=MOST_LEASES,
        ray_actor_options={"num_cpus": 0, "resources": {HEAD: 0.001}},
    )
    return door.bind(nodes.bind(plan.key, plan.command), plan)
