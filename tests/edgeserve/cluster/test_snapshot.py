"""Snapshots: read from the answers of a node, and ahead of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.cases import each
from support.nodes import GIVEN, ROW, model, node

from edgeserve.cluster.snapshot import Snapshot, collect, from_json, read_node, silent
from edgeserve.engine import Rung
from edgeserve.errors import EdgeserveError
from edgeserve.memory.pressure import Level
from edgeserve.units import MB


def test_a_node_is_read() -> None:
    read = read_node("box", GIVEN, [ROW])
    assert (read.name, read.budget, read.used, read.room) == ("box", 1000 * MB, 300 * MB, 700 * MB)
    assert (read.pressure, read.requests) == (Level.LOW, 2)
    (one,) = read.models
    assert (one.id, one.name, one.job, one.rung) == ("llm", "chat", "llm", Rung.HOT)
    assert (one.expected, one.held, one.slots, one.default) == (int(320.5 * MB), 300 * MB, 4, True)
    assert one.need == 0


@each(
    ("stats", "models"),
    [
        ({}, []),
        (GIVEN | {"pressure_level": "AWFUL"}, []),
        (GIVEN | {"budget_usable_mb": None}, []),
        ([], []),
        (GIVEN, [{}]),
        (GIVEN, [ROW | {"rung": "tepid"}]),
        (GIVEN, ["chat"]),
        (GIVEN, None),
        (GIVEN | {"budget_usable_mb": float("inf")}, []),
        (GIVEN | {"allocated_mb": 1 << 70}, []),
        (GIVEN | {"allocated_mb": 1 << 50}, []),  # in bytes, no reader of the snapshot would take it
        (GIVEN | {"allocated_mb": 10**400}, []),
        (GIVEN, [ROW | {"estimated_mb": float("nan")}]),
        (GIVEN, [ROW | {"memory_mb": "1" * 100}]),  # a text would be repeated a million times
        (GIVEN, [ROW | {"leases": -5}]),
        (GIVEN, [ROW | {"model_name": "\ud800"}]),  # no answer of ours could hold it
        (GIVEN, [ROW | {"model_name": "a" * 5000}]),
        (GIVEN, [ROW | {"id": ["llm"]}]),
    ],
)
def test_another_answer_is_refused_with_the_name_of_the_node(stats: Any, models: Any) -> None:
    with pytest.raises(EdgeserveError, match="box does not answer as an edgeserve of this version"):
        read_node("box", stats, models)


def test_json_says_the_same() -> None:
    there = Snapshot((node("box", model(rung=Rung.HOT, requests=2), pressure=Level.HIGH), node("other")))
    body = json.loads(json.dumps(there.as_json()))
    assert (body["pressure"], body["nodes"][0]["room"], body["nodes"][0]["models"][0]["rung"]) == ("HIGH", 700, "hot")
    assert from_json(body) == there


@pytest.mark.parametrize("change", [{"held": [1]}, {"slots": "4"}, {"requests": -1}, {"rung": 1}, {"name": "\ud800"}])
def test_json_of_something_else_is_refused(change: dict[str, Any]) -> None:
    body: Any = Snapshot((node("box", model()),)).as_json()
    body["nodes"][0]["models"][0] |= change
    for given in (body, {"nodes": [{}]}, []):
        with pytest.raises(EdgeserveError, match="no snapshot"):
            from_json(given)


def test_no_node_has_no_pressure() -> None:
    assert Snapshot().pressure is Level.LOW


def test_nodes_that_do_not_report_are_silent() -> None:
    body = collect([{"url": "http://box", "stats": GIVEN, "models": [ROW]}, OSError("gone"), {"url": "http://other"}])
    assert [one["name"] for one in body["nodes"]] == ["http://box"]
    assert silent(body) == {"node 2 of 3": "OSError: gone", "node 3 of 3": "KeyError: 'stats'"}


def test_silent_nodes_of_an_older_cluster_are_none_and_other_things_are_refused() -> None:
    assert silent({"nodes": []}) == {}
    with pytest.raises(EdgeserveError, match="no snapshot"):
        silent({"silent": ["box"]})
