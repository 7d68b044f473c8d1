"""The router of Ray Serve that asks ``place`` for the node of each request."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from ray.serve.request_router import PendingRequest, ReplicaID, ReplicaResult, RequestRouter, RunningReplica

from edgeserve.cluster.affinity import Affinity
from edgeserve.cluster.ahead import Ahead
from edgeserve.cluster.place import Ask, place
from edgeserve.cluster.question import Question
from edgeserve.cluster.snapshot import Node, Snapshot, read_node
from edgeserve.errors import EdgeserveError

log = logging.getLogger("edgeserve.cluster")


class PlacingRouter(RequestRouter):  # type: ignore[misc]
    """One router in each process that has a handle. Its state is the reports of the nodes, and its choices since."""

    def initialize_state(self, **given: Any) -> None:
        self._affinity = Affinity()
        self._ahead = Ahead()
        self._reports: dict[str, Mapping[str, Any]] = {}
        """The latest report of each replica."""
        self._strange: set[str] = set()
        """Replicas whose latest report cannot be read."""

    async def choose_replicas(
        self, candidate_replicas: Sequence[RunningReplica], pending_request: PendingRequest | None = None
    ) -> list[list[RunningReplica]]:
        """Replicas in the order of ``place``, each a rank of its own; none while all are at critical pressure."""
        question = _question(pending_request)
        if pending_request is None or question is None or pending_request.future.done():
            return [list(candidate_replicas)]
        pending_request.routing_context.should_backoff = True  # Ray pauses before it asks again
        there = {one.replica_id.unique_id: one for one in candidate_replicas}
        for gone in self._reports.keys() - there.keys():
            del self._reports[gone]
            self._strange.discard(gone)
            self._ahead.forget(gone)
        snapshot = Snapshot(tuple(self._node(name, one) for name, one in there.items()))
        order = place(snapshot, self._ask(question, snapshot))
        if order:
            # Counted here, since many requests are placed before the first of them is sent.
            self._count(pending_request, question, order[0])
            pending_request.future.add_done_callback(lambda done: self._leave(pending_request, done.cancelled()))
        return [[there[name]] for name in order]

    def on_request_routed(self, pending_request: PendingRequest, replica_id: ReplicaID, result: ReplicaResult) -> None:
        """Count the request at the node that took it, which need not be the first of the order."""
        if (question := _question(pending_request)) is not None:
            self._affinity.keep(question.conversation, replica_id.unique_id, question.client)
            self._count(pending_request, question, replica_id.unique_id)

    def _count(self, pending: PendingRequest, question: Question, name: str) -> None:
        if (node := self._ahead.node(name)) is None:
            return
        ask = self._ask(question, Snapshot((node,)))
        if (model := node.find(ask.model, ask.jobs)) is not None:
            self._ahead.sent(pending.metadata.internal_request_id, name, model)

    def _leave(self, pending: PendingRequest, cancelled: bool) -> None:
        """A client that leaves before its request is sent leaves no request behind."""
        if cancelled:
            self._ahead.dropped(pending.metadata.internal_request_id)

    def on_request_completed(self, replica_id: ReplicaID, internal_request_id: str) -> None:
        self._ahead.ended(internal_request_id)

    def _node(self, name: str, replica: RunningReplica) -> Node:
        """The node of a replica: without models until it has reported, and while its report cannot be read."""
        report = replica.routing_stats
        if report and self._reports.get(name) is not report:
            self._reports[name] = report
            self._read(name, report)
        return self._ahead.node(name) or Node(name, 0, 0)

    def _read(self, name: str, report: Mapping[str, Any]) -> None:
        """Ray would place no request at all for an error here: another version's report must cost that node alone."""
        try:
            self._ahead.report(read_node(name, report["stats"], report["models"]))
            self._strange.discard(name)
        except (EdgeserveError, KeyError) as error:
            self._ahead.forget(name)
            if name not in self._strange:
                log.warning("the node %s gets no requests: %r", name, error)
            self._strange.add(name)

    def _ask(self, question: Question, snapshot: Snapshot) -> Ask:
        """The first spelling of the name that some node serves."""
        home = self._affinity.home(question.conversation, question.client)
        for name in question.names:
            if any(one.find(name, ()) for one in snapshot.nodes):
                return Ask(name, question.jobs, home)
        return Ask("", question.jobs, home)  # a name that no node has: the default stands in, or the node refuses


def _question(pending: PendingRequest | None) -> Question | None:
    first = pending.args[0] if pending is not None and pending.args else None
    return first if isinstance(first, Question) else None
