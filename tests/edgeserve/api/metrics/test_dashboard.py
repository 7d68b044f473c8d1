"""The dashboard of docs/grafana reads figures that there are."""

from __future__ import annotations

import re

from support.cases import each
from support.dashboard import BOARD, queries

from edgeserve.figures.families import COUNTED, PREFIX, PROCESS, READ

EACH = {**COUNTED, **READ}
NAME = re.compile(r"\b(edgeserve_[a-z_]+|process_[a-z_]+)(?:\{([^}]*)\})?")
LABEL = re.compile(r'(\w+)\s*(?:=|!=|=~|!~)\s*"')
BY = re.compile(r"\b(?:by|on)\s*\(([^)]*)\)")


@each("query", queries())
def test_every_query_names_families_and_labels_of_the_table(query: str) -> None:
    known = {one.name for one in PROCESS}
    used = NAME.findall(query)
    assert used
    allowed = {"instance", "le"}
    for name, filters in used:
        family = EACH.get(re.sub(r"_(bucket|sum|count)$", "", name.removeprefix(PREFIX)))
        assert family is not None or name in known, name
        labels = set(family.labels) if family else set()
        assert name.endswith("_bucket") is bool(family and family.bounds)
        assert set(LABEL.findall(filters)) <= labels | {"instance"}
        allowed |= labels
    for names in BY.findall(query):
        assert {one.strip() for one in names.split(",")} <= allowed


def test_the_board_can_be_imported_beside_others() -> None:
    assert BOARD["title"] == BOARD["uid"] == "edgeserve"
    panels = [one for one in BOARD["panels"] if one["type"] != "row"]
    assert len({one["id"] for one in BOARD["panels"]}) == len(BOARD["panels"])
    assert all(one["datasource"]["uid"] == "${datasource}" for one in panels)
    assert {one["name"] for one in BOARD["templating"]["list"]} == {"datasource", "instance"}
    for one in panels:
        place = one["gridPos"]
        assert place["x"] + place["w"] <= 24


def test_every_family_of_use_is_shown() -> None:
    shown = " ".join(queries())
    left_out = {"answers_total", "prefill_seconds", "drafted_tokens_total", "accepted_tokens_total", "model_info"}
    assert [name for name in EACH if PREFIX + name not in shown and name not in left_out] == []
