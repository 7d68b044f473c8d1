"""docs/keys.md agrees with the routes about what a key of scope use may not ask."""

from __future__ import annotations

import re
from pathlib import Path

from edgeserve.api.routes import ENTRIES

PAGE = (Path(__file__).parents[3] / "docs" / "keys.md").read_text(encoding="utf-8")
ROW = re.compile(r"\| (any|[A-Z]+) \| `(/[\w/]+)(…?)` \| [^|]+ \|")


def rows() -> list[tuple[str, str, bool]]:
    """Method, path, and whether longer paths count, too."""
    return [(method, path, bool(more)) for method, path, more in ROW.findall(PAGE)]


def fits(row: tuple[str, str, bool], method: str, path: str) -> bool:
    own, beginning, more = row
    return own in ("any", method) and (path.startswith(beginning) if more else path == beginning)


def test_the_page_names_the_routes_of_the_owner_and_no_others() -> None:
    assert len(rows()) >= 6
    wrong = [
        f"{one.method} {one.path}"
        for one in ENTRIES
        if one.owner is not any(fits(row, one.method, one.path) for row in rows())
    ]
    assert wrong == []


def test_each_row_has_a_route() -> None:
    assert [row for row in rows() if not any(fits(row, one.method, one.path) for one in ENTRIES)] == []
