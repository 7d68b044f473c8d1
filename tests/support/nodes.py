"""Nodes of a cluster that exist on paper, and the bodies in which real ones report themselves."""

from __future__ import annotations

import dataclasses
from typing import Any

from edgeserve.cluster.snapshot import ModelState, Node
from edgeserve.engine import Rung
from edgeserve.memory.pressure import Level

GIVEN = {"budget_usable_mb": 1000, "allocated_mb": 300, "pressure_level": "LOW"}
ROW = {
    "id": "llm",
    "model_name": "chat",
    "model_type": "llm",
    "rung": "hot",
    "memory_mb": 300.0,
    "estimated_mb": 320.5,
    "leases": 2,
    "slots": 4,
    "default": True,
    "pinned": False,
}


def model(name: str = "chat", rung: Rung = Rung.COLD, **given: Any) -> ModelState:
    """A model of 300 bytes that holds what its rung says."""
    expected = given.pop("expected", 300)
    held = {Rung.COLD: 0, Rung.WARM: expected // 2, Rung.HOT: expected}[rung]
    fields: dict[str, Any] = {"id": name, "name": name, "job": "llm", "held": held} | given
    return ModelState(rung=rung, expected=expected, **fields)


def node(name: str, *models: ModelState, budget: int = 1000, pressure: Level = Level.LOW) -> Node:
    """A node whose models hold all that is used."""
    return Node(name, budget, sum(one.held for one in models), pressure, models)


def reports(requests: int = 2) -> dict[str, Any]:
    """Answers of a node by path."""
    return {"/memory/stats": GIVEN, "/memory/models": [ROW | {"leases": requests}]}


def busier(there: Node, name: str = "chat") -> Node:
    """The node with one more request for a model."""
    models = (dataclasses.replace(one, requests=one.requests + (one.name == name)) for one in there.models)
    return dataclasses.replace(there, models=tuple(models))
