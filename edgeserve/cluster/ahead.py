"""The state of nodes ahead of their reports: requests that were sent to them, and ended, since."""

from __future__ import annotations

import dataclasses
from collections import Counter

from edgeserve.cluster.snapshot import ModelState, Node
from edgeserve.engine import Rung

Place = tuple[str, str]
"""A node by its name, and one of its models by its id."""


class Ahead:
    """Counts the requests of one router. Reports are a second old at most, and many requests are shorter.

    A report also counts requests of others, who ask a node directly: those stay as the report has them.
    """

    def __init__(self) -> None:
        self._reports: dict[str, Node] = {}
        self._under_way: dict[str, Place] = {}
        self._own = Counter[Place]()
        self._foreign: dict[Place, int] = {}
        self._heated: set[Place] = set()

    def report(self, node: Node) -> None:
        """Take a new report: it knows what models have become hot."""
        self._reports[node.name] = node
        for model in node.models:
            place = node.name, model.id
            self._heated.discard(place)
            self._foreign[place] = max(0, model.requests - self._own[place])

    def forget(self, name: str) -> None:
        """A node is gone; ends of its requests may still be reported."""
        self._reports.pop(name, None)
        for place in [one for one in self._foreign if one[0] == name]:
            del self._foreign[place]
            self._heated.discard(place)

    def sent(self, request: str, name: str, model: ModelState) -> None:
        """A request, by an id of its own, goes to a node: the model takes its memory there.

        A request that went to another node before leaves that one.
        """
        self.dropped(request)
        place = name, model.id
        self._under_way[request] = place
        self._own[place] += 1

    def ended(self, request: str) -> None:
        """A request has ended, so that the model was hot. One that was never sent changes nothing."""
        if (place := self.dropped(request)) is not None:
            self._heated.add(place)

    def dropped(self, request: str) -> Place | None:
        """A request never reached its node, or left it before the model was hot; where it was to go."""
        if (place := self._under_way.pop(request, None)) is not None:
            self._own[place] -= 1
            if not self._own[place]:
                del self._own[place]
        return place

    def node(self, name: str) -> Node | None:
        """The node as it must be now; None for one that has not reported."""
        if (node := self._reports.get(name)) is None:
            return None
        now = {one.id: self._now(name, one) for one in node.models}
        more = sum(one.held for one in now.values()) - sum(one.held for one in node.models)
        used = max(node.used, min(node.budget, node.used + more))
        return dataclasses.replace(node, used=used, models=tuple(now.values()))

    def _now(self, name: str, model: ModelState) -> ModelState:
        place = name, model.id
        rung = Rung.HOT if place in self._heated else model.rung
        taken = rung is Rung.HOT or self._own[place] > 0
        held = max(model.held, model.expected) if taken else model.held
        requests = self._own[place] + self._foreign[place]
        return dataclasses.replace(model, rung=rung, held=held, requests=requests)
