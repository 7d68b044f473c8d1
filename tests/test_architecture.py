"""docs/rooms.md names every module of the code exactly once, in the row of its folder."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "rooms.md"
HEADING = re.compile(r"## `(\w+)/`")
ROW = re.compile(r"\| `([\w/]+)/` \| [^|]+ \| ([\w, ]+) \|")
FILE = re.compile(r"\| `(\w+)\.py` \| [^|]+ \| \|")


def named() -> Iterator[str]:
    """Modules that the tables of rooms name, as paths."""
    top = ""
    for line in PAGE.read_text(encoding="utf-8").split("\n"):
        if heading := HEADING.match(line):
            top = heading[1]
        elif row := ROW.fullmatch(line):
            yield from (f"{top}/{row[1]}/{name}.py" for name in row[2].split(", "))
        elif file := FILE.fullmatch(line):
            yield f"{top}/{file[1]}.py"


def test_the_tables_of_rooms_name_each_module_once() -> None:
    paths = [*ROOT.glob("edgeserve/**/*.py"), *ROOT.glob("engines/**/*.py")]
    there = [path.relative_to(ROOT).as_posix() for path in paths if path.name != "__init__.py"]
    told = Counter(named())
    missing = sorted((Counter(there) - told).elements())
    wrong = sorted((told - Counter(there)).elements())
    assert {"missing": missing, "gone or named twice": wrong} == {"missing": [], "gone or named twice": []}
