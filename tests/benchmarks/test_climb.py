"""The way from warm to hot, from the pairs of a run."""

from __future__ import annotations

from benchmarks.climb import GIGABYTES, KIND, climbs, table
from benchmarks.pairs import Pair, Pairs


def test_the_way_up_is_the_difference_of_the_medians_for_each_gigabyte() -> None:
    pairs = Pairs()
    for turn, (hot, warm) in enumerate([(200.0, 300.0), (210.0, 290.0), (190.0, 900.0)], 1):
        pairs.add(Pair("model", KIND, "", turn, hot, warm, {GIGABYTES: 0.5}))
    (one,) = climbs(pairs)
    assert (one.hot, one.warm, one.each) == (200.0, 300.0, 200.0)
    assert table([one]).splitlines()[-1] == "| model | 0.50 | 200 | 300 | 200 | ≤ 100 | no |"
