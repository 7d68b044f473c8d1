"""The router of Ray Serve over reports that a test gives, without a cluster. They run where Ray is installed."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from support.nodes import GIVEN, ROW

from edgeserve.cluster.question import Question

pytestmark = [
    pytest.mark.slow,  # Ray takes seconds to import
    pytest.mark.boxes("Ray"),
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]
GOOD = {"stats": GIVEN, "models": [ROW]}


def replica(name: str, report: Any) -> SimpleNamespace:
    return SimpleNamespace(replica_id=SimpleNamespace(unique_id=name), routing_stats=report)


def chosen(router: Any, *replicas: SimpleNamespace) -> list[str]:
    """Names of the replicas for one request, the best first."""

    async def choose() -> Any:
        pending = SimpleNamespace(
            args=(Question(("chat",)),),
            future=asyncio.get_running_loop().create_future(),
            metadata=SimpleNamespace(internal_request_id="1"),
            routing_context=SimpleNamespace(should_backoff=False),
        )
        return await router.choose_replicas(replicas, pending)

    return [one.replica_id.unique_id for rank in asyncio.run(choose()) for one in rank]


@pytest.mark.parametrize("report", [GOOD | {"stats": {}}, {"stats": GIVEN}, {"models": [ROW]}, GOOD | {"models": [1]}])
def test_a_report_that_cannot_be_read_costs_its_node_alone(report: Any, caplog: pytest.LogCaptureFixture) -> None:
    from edgeserve.cluster.ray_router import PlacingRouter

    router = PlacingRouter.__new__(PlacingRouter)
    router.initialize_state()
    assert chosen(router, replica("a", GOOD), replica("b", GOOD)) == ["a", "b"]
    with caplog.at_level(logging.WARNING, "edgeserve.cluster"):
        for _ in range(2):
            assert chosen(router, replica("a", dict(report)), replica("b", GOOD)) == ["b"]
    (told,) = caplog.messages
    assert told.startswith("the node a gets no requests: ")
    assert chosen(router, replica("a", dict(GOOD))) == ["a"]
