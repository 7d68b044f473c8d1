"""The tables of a split model, and the judgement over its answers."""

from __future__ import annotations

import dataclasses

from benchmarks.cluster_splits import Loss, Pair, Splits, Told, table, words

ONE = Told("a text", 96, 200, "", 0.1, 1.1)
THREE = dataclasses.replace(ONE, first=0.2, whole=2.2)
LOSS = Loss(8.5, True, True, 3.0)
FOUND = Splits(
    "it needs 115 MB", [{"layers": 16, "memory_mb": 62.0}], (0.8, 1.3), [Pair(ONE, THREE)] * 2, [LOSS], [LOSS] * 2
)


def test_the_tables_show_both_sides_and_each_loss() -> None:
    shown = table(FOUND)
    assert "| one large box | 0.8 s | 100 ms | 95.0 |" in shown
    assert "| three small boxes | 1.3 s | 200 ms | 47.5 |" in shown
    assert "2 of 2 answers are the same text" in shown
    assert "| stopped | 8.5 to 8.5 s | 2 of 2 | 2 of 2 |" in shown
    assert "16 layers in 62 MB" in words(FOUND)
    assert FOUND.right


def test_another_text_or_another_end_is_not_right() -> None:
    other = Pair(ONE, dataclasses.replace(THREE, text="another"))
    silent = Pair(*[dataclasses.replace(ONE, text="", error="lost")] * 2)
    for wrong in (
        {"pairs": [other]},
        {"pairs": [silent]},
        {"killed": [dataclasses.replace(LOSS, named=False)]},
        {"hung": [dataclasses.replace(LOSS, again=False)]},
    ):
        assert not dataclasses.replace(FOUND, **wrong).right  # type: ignore[arg-type]
