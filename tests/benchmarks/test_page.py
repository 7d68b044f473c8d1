"""Costs of the page: the table of its pairs, and its verdict."""

from __future__ import annotations

from benchmarks.page import Pair, rows

LIGHT = Pair(without=25.0, before=25.25, after=26.0, pss=1.0, paint=0.25)


def verdicts(*pairs: Pair, size: int = 70_000) -> list[bool | None]:
    return [verdict for _, _, verdict in rows(pairs, size)]


def test_the_table_has_median_and_extremes() -> None:
    found = rows([LIGHT, LIGHT, Pair(25.0, 27.0, 27.0, 0.5, 0.75)], 70_000)
    assert [figures for _, figures, _ in found] == [
        ["0.25", "0.25", "2.00", "1"],
        ["0.75", "0.00", "0.75", ""],
        ["1.00", "0.50", "1.00", ""],
        ["0.25", "0.25", "0.75", "1"],
        ["70,000", "", "", "80,000"],
    ]


def test_each_target_is_judged() -> None:
    heavy, slow = Pair(25.0, 26.5, 27.0, 1.0, 0.25), Pair(25.0, 25.25, 26.0, 1.0, 1.25)
    assert verdicts(LIGHT) == [True, None, None, True, True]
    assert verdicts(LIGHT, heavy, heavy)[0] is False
    assert verdicts(LIGHT, LIGHT, slow)[3] is False, "the slowest paint counts"
    assert verdicts(LIGHT, size=80_001)[4] is False
