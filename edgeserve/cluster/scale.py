"""The number of nodes: a pure decision over the queues and the memory of those that run."""

from __future__ import annotations

from collections.abc import Sequence

from edgeserve.cluster.snapshot import Node
from edgeserve.dataclass import dataclass
from edgeserve.memory.pressure import Level

BUSY = 1.5
"""Requests for each slot of the busiest model, on the average of all nodes, from which one more node helps."""
QUIET = 0.25
"""The same, below which one node less is enough. Far below ``BUSY``: a node that left must not be called back."""
JOIN_AFTER = 10.0
"""Seconds for which one node more must be wanted, before a node joins."""
LEAVE_AFTER = 300.0
"""Seconds for which one node less must be enough, before a node leaves: its models would have to be loaded again."""


@dataclass(frozen=True, slots=True)
class Burden:
    """The work and the memory of one node: ``queue`` as in ``BUSY``, memory in bytes."""

    queue: float
    pressure: int
    budget: float
    used: float


def burden(node: Node) -> Burden:
    queue = max((one.requests / one.slots for one in node.models), default=0.0)
    return Burden(queue, node.pressure, node.budget, node.used)


def scale(nodes: Sequence[Burden], least: int, most: int) -> int:
    """The number of nodes to have, between ``least`` and ``most``; at most one more or one less than there are.

    1. One more, where the nodes have long queues on average, or where the pressure of each is high.
    2. One less, where they have next to nothing to do, and the memory in use fits on all but the largest.
    """
    count = wanted = len(nodes)
    average = sum(one.queue for one in nodes) / count if count else 0.0
    if count and (average >= BUSY or all(one.pressure >= Level.HIGH for one in nodes)):
        wanted = count + 1
    elif count > 1 and average <= QUIET and _fit_on_fewer(nodes):
        wanted = count - 1
    return min(most, max(least, wanted))


def _fit_on_fewer(nodes: Sequence[Burden]) -> bool:
    largest = max(one.budget for one in nodes)
    return sum(one.used for one in nodes) <= sum(one.budget for one in nodes) - largest
