"""The node for a request: a pure decision over a snapshot.

The unit of cost is one answer of the model: the time for which a request waits behind one more.
"""

from __future__ import annotations

import enum

from edgeserve.cluster.snapshot import ModelState, Node, Snapshot
from edgeserve.dataclass import dataclass
from edgeserve.engine import Rung
from edgeserve.memory.pressure import Level

WARM = 0.5
"""Cost of the way up from warm: page faults."""
COLD = 2.0
"""Cost of a load, beside the room that it takes from later ones."""
COMING = 1.0
"""Cost of a load that has begun for the requests before this one."""
EVICTION = 2.0
"""Further cost where idle engines step down first: each of them is loaded again later."""
OTHERS = 0.25
"""Cost of a request for another model of the same node: models share its processor, not their slots."""
HOME = 0.75
"""Gain of the node whose cache holds the prefix of the conversation: less than a place in a queue."""


class Chance(enum.IntEnum):
    """Whether a node can answer at all. A better chance comes before any cost."""

    NOW = 0
    """The model is hot, or can become so."""
    LATER = 1
    """Engines at work hold the memory."""
    NEVER = 2
    """The model is larger than the budget of the node. The node itself refuses the request, with sizes."""


@dataclass(frozen=True, slots=True)
class Ask:
    """The part of a request that decides its node.

    Fields:
        model  name of the model as the client wrote it; empty for the default
        jobs   jobs that may answer, the first that has a model serves
        home   name of the node that holds the prefix of the conversation; empty where none does
    """

    model: str = ""
    jobs: tuple[str, ...] = ()
    home: str = ""


def place(snapshot: Snapshot, ask: Ask) -> tuple[str, ...]:
    """Names of the nodes that may take the request, the best first; empty when no node may.

    1. A node at critical pressure takes nothing new.
    2. Nodes that serve the model come alone. Where no node serves the model, the node with the fewest requests explains
       that to the client.
    3. Nodes that can answer now come before nodes whose memory is busy, and nodes that can never hold the model last.
    4. The least cost wins: the queue of the model, its way up (hot, else warm, else cold where it fits, else where idle
       engines step down), and the requests of other models. The node of the conversation gains.
    5. Among equals the most room wins, then the fewest requests.
    """
    # 1.
    calm = [one for one in snapshot.nodes if one.pressure is not Level.CRITICAL]
    # 2.
    serving = [(one, found) for one in calm if (found := one.find(ask.model, ask.jobs)) is not None]
    if not serving:
        return tuple(one.name for one in sorted(calm, key=lambda one: (one.requests, -one.room, one.name)))
    # 3. to 5.
    ranked = sorted((*_rank(node, model, ask.home), node.name) for node, model in serving)
    return tuple(one[-1] for one in ranked)


def _rank(node: Node, model: ModelState, home: str) -> tuple[Chance, float, int, int]:
    return chance(node, model), cost(node, model, home), -node.room, node.requests


def chance(node: Node, model: ModelState) -> Chance:
    need = model.need
    if need <= node.room:
        return Chance.NOW
    if model.expected > node.budget:
        return Chance.NEVER
    return Chance.NOW if need <= node.room + node.idle(but=model) else Chance.LATER


def cost(node: Node, model: ModelState, home: str) -> float:
    """Answers that a request for the model would wait for on this node."""
    total = model.requests / model.slots + OTHERS * (node.requests - model.requests)
    if model.rung is not Rung.HOT:
        climb = WARM if model.rung is Rung.WARM else COLD
        total += min(climb, COMING) if model.requests else climb
        if model.need > node.room:
            total += EVICTION
    if node.name == home and model.rung is not Rung.COLD:
        total -= HOME
    return total
