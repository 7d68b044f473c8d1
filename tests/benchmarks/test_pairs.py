"""Pairs of measurements: their judgement, and the file that keeps them."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.pairs import Pair, Pairs, comparison, verdict

TARGETS = {"rewriting": 1.5, "free text": 0.98}


def pairs_of(kind: str, *ratios: float) -> Pairs:
    pairs = Pairs()
    for turn, ratio in enumerate(ratios, 1):
        pairs.add(Pair("model", kind, "a task", turn, 10 * ratio, 10.0, {"drafted": 2.0}))
    return pairs


@pytest.mark.parametrize(
    ("kind", "ratios", "met"),
    [
        ("rewriting", (1.0, 1.6, 1.7), True),
        ("rewriting", (1.0, 1.4, 9.0), False),
        ("free text", (0.98,), True),
        ("another", (0.1,), None),
    ],
)
def test_the_median_of_the_pairs_meets_the_target(kind: str, ratios: tuple[float, ...], *, met: bool | None) -> None:
    rows = pairs_of(kind, *ratios).rows(TARGETS)
    assert [row.met for row in rows] == [met]
    assert verdict(rows) == (met is False)


def test_the_table_has_a_row_for_each_kind() -> None:
    line = comparison(pairs_of("rewriting", 1.6).rows(TARGETS)).splitlines()[-1]
    assert line == "| model: rewriting | 16.0 | 10.0 | 1.60 | 1.60 to 1.60 | ≥ 1.5 | yes |"


def test_figures_beside_are_summed() -> None:
    assert pairs_of("rewriting", 1.0, 2.0).beside("model", "drafted") == 4
    assert pairs_of("rewriting", 1.0, 2.0).beside("another", "drafted") == 0


def test_a_stopped_run_finds_its_pairs_again(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    first = Pair("model", "rewriting", "a task", 1, 15.0, 10.0, {"drafted": 3})
    Pairs(path).add(first)
    with path.open("a", encoding="utf-8") as file:
        file.write('{"subject": "mod')
    again = Pairs(path)
    assert again.all == [first]
    assert again.has(*first.place)
    assert not again.has("model", "rewriting", "a task", 2)
    again.add(second := Pair("model", "rewriting", "a task", 2, 1.0, 1.0))
    assert Pairs(path).all == [first, second]


def test_a_file_of_something_else_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "kept.jsonl"
    path.write_text('{"model": 1}\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"kept\.jsonl, line 1: this is no pair"):
        Pairs(path)
