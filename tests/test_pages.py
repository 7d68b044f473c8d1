"""The API's pages name every route that the server has, and no other."""

from __future__ import annotations

import re
from pathlib import Path

from edgeserve.api import routes

PAGE = Path(__file__).parent.parent / "docs" / "api" / "README.md"
ROW = re.compile(r"`(GET|POST|PATCH|DELETE|WebSocket) (/[^`]*)`")


def test_the_table_of_routes_is_complete() -> None:
    rows = [line for line in PAGE.read_text(encoding="utf-8").split("\n") if line.startswith("| `")]
    told = {pair for row in rows for pair in ROW.findall(row)}
    there = {(one.method, one.path.replace(":path}", "}")) for one in routes.ENTRIES}
    assert told == there | {("WebSocket", routes.LIVE), ("WebSocket", routes.REALTIME)}
