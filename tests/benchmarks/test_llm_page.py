"""The page of kept rows: a table for each model and condition, each with its own targets."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import llm_page, llm_rows, llm_tables, report
from benchmarks.pairs import Pair, Pairs

MODEL = Path("llama-3.2-1b-q4_0.gguf")
ALONE, BUSY = (llm_rows.subject(str(MODEL), tuned=True, busy=busy) for busy in (False, True))
MAPPED = llm_rows.subject(str(MODEL), tuned=False, busy=False)
EIGHT_BITS = llm_rows.subject("llama-3.2-1b-q8_0.gguf", tuned=False, busy=False)


def kept(*rows: tuple[str, str, float]) -> Pairs:
    """Pairs of a subject, a figure and a ratio each."""
    pairs = Pairs()
    for turn, (subject, figure, ratio) in enumerate(rows, 1):
        pairs.add(Pair(subject, figure, figure, turn, 10 * ratio, 10.0, {llm_rows.LOAD: 2.0 + turn}))
    return pairs


@pytest.mark.parametrize(
    ("subject", "figure", "ratio", "met"),
    [
        (ALONE, "rate 1", 1.0, True),
        (ALONE, "rate 8", 0.99, False),
        (BUSY, "rate 1", 1.19, False),
        (BUSY, "rate 1", 1.2, True),
        (BUSY, "cold", 2.0, None),
        (ALONE, "cold", 1.01, False),
        (ALONE, "read", 0.99, False),
        (MAPPED, "private", 0.36, False),
        (MAPPED, "private", 0.35, True),
        (ALONE, "private", 2.0, None),
        (EIGHT_BITS, "private", 2.0, None),
    ],
)
def test_each_condition_has_its_targets(subject: str, figure: str, ratio: float, *, met: bool | None) -> None:
    (row,) = llm_page.tables(kept((subject, figure, ratio)))[subject].rows()
    assert (row.met, row.ratio) == (met, pytest.approx(ratio))


def test_the_mean_is_that_of_an_idle_machine() -> None:
    pairs = kept((ALONE, "rate 1", 1.0), (ALONE, "rate 4", 1.2), (ALONE, "cold", 9.0), (BUSY, "rate 1", 5.0))
    assert llm_page.mean_rate(llm_page.tables(pairs)) == pytest.approx(1.1)


def test_the_page_has_a_table_for_each_condition(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(report, "DOCS", tmp_path)
    assert llm_page.main(kept((ALONE, "rate 1", 1.1), (BUSY, "rate 1", 1.0))) == 1
    text = (tmp_path / "llm_rows.md").read_text(encoding="utf-8")
    assert [line for line in text.splitlines() if line.startswith("## ")][:2] == [f"## {ALONE}", f"## {BUSY}"]
    assert "both servers and the client included: 3.0 to 4.0" in text
    assert llm_page.main(kept((ALONE, "rate 1", 1.1))) == 0


def test_every_figure_of_a_row_has_a_line() -> None:
    names = [one.name for one in llm_tables.FIGURES]
    assert {"private", "read", "first 1", "first 4", "first 8"} <= set(names)
    assert len(set(names)) == len(names)
