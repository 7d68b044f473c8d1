"""docs/metrics.md names every family, with its kind and labels."""

from __future__ import annotations

import re
from pathlib import Path

from support.cases import each

from edgeserve.figures.families import COUNTED, LLAMA, PREFIX, PROCESS, READ, Family

PAGE = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text(encoding="utf-8")
ROW = re.compile(r"^\| `(\w+)` \| (counter|gauge|histogram) \| ([^|]*)\| ([^|]+) \|$", re.MULTILINE)
ALL = (*COUNTED.values(), *READ.values(), *PROCESS, *LLAMA)


def test_the_page_names_each_family() -> None:
    named = {name: (kind, tuple(re.findall(r"`(\w+)`", labels))) for name, kind, labels, _ in ROW.findall(PAGE)}
    there = {PREFIX + one.name: (one.kind, one.labels) for one in (*COUNTED.values(), *READ.values())}
    there |= {one.name: (one.kind, one.labels) for one in PROCESS}
    assert named == there


def test_the_page_names_the_names_of_llama_server() -> None:
    assert set(re.findall(r"`(llamacpp:\w+)`", PAGE)) == {one.name for one in LLAMA}


@each("one", ALL)
def test_names_follow_the_rules_of_prometheus(one: Family) -> None:
    assert re.fullmatch(r"(llamacpp:)?[a-z_]+", one.name)
    assert one.name.endswith("_total") is (one.kind == "counter")
    assert bool(one.bounds) is (one.kind == "histogram")
    assert list(one.bounds) == sorted(set(one.bounds))
    assert len(set(one.labels)) == len(one.labels)
    assert "le" not in one.labels
