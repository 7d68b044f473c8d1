"""The judgement of a comparison of two servers."""

from __future__ import annotations

import itertools

from benchmarks.llm_tables import FIGURES, Results, comparison
from benchmarks.process import Memory
from benchmarks.sampling import Mark, Record, Sample

MEMORY = ("fresh", "hot", "peak", "idle")


def results(ours: float, theirs: float, rounds: int = 3) -> Results:
    made = Results(("ours", "theirs"), {}, rounds)
    for _, (side, value) in itertools.product(range(rounds), (("ours", ours), ("theirs", theirs))):
        made.add(side, {one.name: value for one in FIGURES if one.name not in MEMORY})
    sizes = (100.0, 300.0, 200.0)
    samples = [Sample(at, (Memory(size, size, 0), Memory(2 * size, size, size))) for at, size in enumerate(sizes)]
    marks = [Mark("fresh", 0, 0), Mark("hot", 0, 0), Mark("work", 0, 1), Mark("idle", 2, 2)]
    made.remember(Record(samples, marks))
    return made


def met(made: Results) -> dict[str, bool | None]:
    return {one.figure.name: one.met for one in made.rows()}


def test_more_is_better_for_some_and_less_for_others() -> None:
    judged = met(results(ours=90.0, theirs=100.0))
    assert (judged["rate 1"], judged["cold"], judged["p99 1"]) == (False, True, None)
    judged = met(results(ours=120.0, theirs=100.0))
    assert (judged["rate 1"], judged["cold"]) == (True, False)


def test_the_median_of_ratios_not_the_ratio_of_medians() -> None:
    made = results(1.0, 1.0, rounds=0)
    for ours, theirs in ((1.0, 1.0), (10.0, 20.0), (30.0, 10.0)):
        made.add("ours", {one.name: ours for one in FIGURES})
        made.add("theirs", {one.name: theirs for one in FIGURES})
    row = next(one for one in made.rows() if one.figure.name == "rate 1")
    assert (row.ours, row.theirs, row.ratio, row.ratios) == (10.0, 10.0, 1.0, (1.0, 0.5, 3.0))


def test_memory_is_the_most_while_working_and_the_last_while_idle() -> None:
    rows = {one.figure.name: one for one in results(1.0, 1.0).rows()}
    assert [(rows[name].ours, rows[name].theirs) for name in MEMORY] == [
        (100.0, 200.0),
        (100.0, 200.0),
        (300.0, 600.0),
        (200.0, 400.0),
    ]
    assert all(rows[name].met for name in MEMORY)


def test_the_table_names_each_figure_once() -> None:
    table = comparison(results(1.0, 1.0))
    assert all(table.count(f"| {one.what} |") == 1 for one in FIGURES)
