"""Snapshots: read from the answers of a node, and ahead of them."""

from __future__ import annotations

from typing import Any

import pytest
from support.nodes import GIVEN, ROW, model, node

from edgeserve.cluster.snapshot import Snapshot, read_node
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


@pytest.mark.parametrize(
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
    ],
)
def test_another_answer_is_refused_with_the_name_of_the_node(stats: Any, models: Any) -> None:
    with pytest.raises(EdgeserveError, match="box does not answer as an edgeserve of this version"):
        read_node("box", stats, models)


def test_a_request_on_its_way_counts_before_the_node_reports_it() -> None:
    before = node("box", model(), model("ears", Rung.HOT, expected=200), budget=1000)
    after = before.with_request(before.models[0])
    taken = after.models[0]
    assert (taken.rung, taken.held, taken.requests, after.used, after.requests) == (Rung.HOT, 300, 1, 500, 1)
    again = after.with_request(taken)
    assert (again.used, again.requests) == (500, 2)
    assert again.models[1] is before.models[1]


def test_a_request_never_takes_more_than_the_budget() -> None:
    before = node("box", model(), model("ears", Rung.HOT, expected=900), budget=1000)
    assert before.with_request(before.models[0]).used == 1000
    over = node("box", model(), model("ears", Rung.HOT, expected=1200), budget=1000)
    assert over.with_request(over.models[0]).used == 1200


def test_no_node_has_no_pressure() -> None:
    assert Snapshot().pressure is Level.LOW
