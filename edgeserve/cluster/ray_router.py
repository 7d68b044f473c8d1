"""The router of Ray Serve that asks ``place`` for the node of each request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ray.serve.request_router import PendingRequest, ReplicaID, ReplicaResult, RequestRouter, RunningReplica

from edgeserve.cluster.affinity import Affinity
from edgeserve.cluster.place import Ask, place
from edgeserve.cluster.question import Question
from edgeserve.cluster.snapshot import Node, Snapshot, read_node


class PlacingRouter(RequestRouter):  # type: ignore[misc]
    """One router in each process that has a handle. Its state is the reports of the nodes, and its choices since."""

    def initialize_state(self, **given: Any) -> None:
        self._affinity = Affinity()
        self._seen: dict[str, tuple[Mapping[str, Any], Node]] = {}
        """By replica: its report, and the node with the requests that were sent since that report."""

    async def choose_replicas(
        self, candidate_replicas: Sequence[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Replicas in the order of ``place``, each a rank of its own; none while all are at critical pressure."""
        question = _question(pending_request)
        if pending_request is None or question is None or pending_request.future.done():
            return [list(candidate_replicas)]
        pending_request.routing_context.should_backoff = True  # Ray pauses before it asks again
        there = {one.replica_id.unique_id: one for one in candidate_replicas}
        for gone in self._seen.keys() - there.keys():
            del self._seen[gone]
        snapshot = Snapshot(tuple(self._node(name, one) for name, one in there.items()))
        return [[there[name]] for name in place(snapshot, self._ask(question, snapshot))]

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: ReplicaResult) -> None:
        """Count the request at its node at once: the next report comes up to a second later."""
        question, name = _question(pending_request), replica_id.unique_id
        if question is None or name not in self._seen:
            return
        self._affinity.keep(question.conversation, name)
        report, node = self._seen[name]
        ask = self._ask(question, Snapshot((node,)))
        if (model := node.find(ask.model, ask.jobs)) is not None:
            self._seen[name] = report, node.with_request(model)

    def _node(self, name: str, replica: RunningReplica) -> Node:
        """The node of a replica: without models until it has reported."""
        report = replica.routing_stats
        known = self._seen.get(name)
        if known is None or known[0] is not report:
            node = read_node(name, report["stats"], report["models"]) if report else Node(name, 0, 0)
            known = self._seen[name] = report, node
        return known[1]

    def _ask(self, question: Question, snapshot: Snapshot) -> Ask:
        """The first spelling of the name that some node serves."""
        home = self._affinity.home(question.conversation)
        for name in question.names:
            if any(one.find(name, ()) for one in snapshot.nodes):
                return Ask(name, question.jobs, home)
        return Ask("", question.jobs, home)  # a name that no node has: the default stands in, or the node refuses


def _question(pending: PendingRequest | None) -> Question | None:
    first = pending.args[0] if pending is not None and pending.args else None
    return first if isinstance(first, Question) else None
