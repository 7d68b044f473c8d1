"""The comparison of process host and thread host: pairs, their judgement, the page. Nothing is measured here."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from benchmarks import report
from benchmarks.isolation_memory import STATES, Life, Moment
from benchmarks.isolation_pairs import SIDES, Figure, Figures, Pairs, Row
from benchmarks.isolation_speed import CHAT, FAKES, FILES, TEXT_BYTES, long_text
from benchmarks.isolation_tables import Results, document, draw, missed
from benchmarks.isolation_worker import DEATHS, STEPS
from benchmarks.process import Memory, family, memory_of, memory_of_all, processor_of_all
from benchmarks.targets import Step
from support.cases import each

RATE = Figure("tokens/s", target=0.98, more=True)


def test_the_first_round_does_not_count_and_the_order_alternates() -> None:
    asked: list[tuple[str, int]] = []

    def scene(side: str, turn: int) -> Figures:
        asked.append((side, turn))
        return {"rate": 10.0 * turn + SIDES.index(side)}

    pairs = Pairs()
    pairs.measure(scene, 2)
    assert asked == [("process", 0), ("thread", 0), ("thread", 1), ("process", 1), ("process", 2), ("thread", 2)]
    assert pairs.figures == {"rate": {"thread": [10.0, 20.0], "process": [11.0, 21.0]}}


@each(
    ("figure", "median", "met"),
    [
        (Figure("r", "ratio", 0.98, more=True), 0.9, False),
        (Figure("r", "ratio", 1.0), 0.9, True),
        (Figure("d", "difference", 3.0), -2.0, True),
        (Figure("a", "alone", 17.0), 18.0, False),
        (Figure("n"), 0.9, None),
    ],
)
def test_a_figure_is_judged_by_the_median_of_its_pairs(figure: Figure, median: float, met: bool | None) -> None:
    row = Row(figure, thread=(20.0, 40.0, 10.0), process=(18.0, 36.0, 15.0))
    assert (row.median, row.met) == (pytest.approx(median), met)


def test_a_row_shows_quartiles_and_what_is_missing() -> None:
    row = Row(RATE, (10.0, 10.0, 10.0, 10.0, 10.0), (9.0, 9.5, 10.0, 10.5, 12.0))
    assert row.cells() == ["tokens/s", "10", "10", "×1.000", "0.950 to 1.050", "≥ 0.98", "yes"]
    assert Row(Figure("dead", "alone"), (), (7.0,)).cells() == ["dead", "–", "7", "", "", "", ""]
    assert Row(Figure("late", "difference", 3.0), (1.0,), (9.0,)).cells()[3:] == ["+8", "", "≤ 3", "**no**"]


def pairs(figures: dict[str, Figure], thread: float, process: float) -> Pairs:
    values = {"thread": [thread] * 3, "process": [process] * 3}
    return Pairs({key: {side: list(values[side]) for side in SIDES} for key in figures})


def results(pss: float = 40.0) -> Results:
    """All targets met, unless the memory says otherwise."""
    memory = Memory(pss, pss, 0.0, pss)
    life = Life({key: Moment(memory, {"server": pss}) for key in STATES}, [Step("llm", "offloaded", 100.0, 99.0)])
    sizes = ("small", "real size")
    return Results(
        models=dict.fromkeys(sizes, "a model"),
        chats={size: pairs(dict(CHAT), 50.0, 50.0) for size in sizes},
        files=pairs(dict(FILES), 100.0, 100.0),
        steps={size: pairs(dict(STEPS), 10.0, 30.0) for size in sizes},
        deaths={size: pairs(dict(DEATHS), 0.0, 20.0) for size in sizes},
        fakes=pairs(dict(FAKES), 9.0, 9.5),
        lives=dict.fromkeys(SIDES, life),
        loads=(0.5, 2.0),
        cores=2,
    )


def test_missed_targets_are_named() -> None:
    slow = replace(results(pss=65.0), chats={"small": pairs(dict(CHAT), 50.0, 40.0)})
    assert missed(results()) == []
    assert missed(slow) == [
        *(f"Chat, small: tokens/s, clients: {clients}" for clients in (1, 4, 8)),
        *(f"Memory: {STATES[key].name}" for key in ("started", "cold")),
    ]


def test_the_page_has_every_figure() -> None:
    page = document(results())
    figures = {**CHAT, **FILES, **STEPS, **DEATHS, **FAKES}
    assert all(one.what in page for one in figures.values())
    assert "| llm offloaded | process | 100.0 | 99.0 | 99% |" in page


@pytest.mark.slow
def test_the_picture_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(report, "DOCS", tmp_path)
    draw(results())
    assert (tmp_path / "isolation.png").stat().st_size > 10_000


def test_the_long_text_is_as_long_as_it_says() -> None:
    assert len(long_text()) == TEXT_BYTES


def test_all_processes_count() -> None:
    code = "import sys; data = bytes(8 << 20).replace(b'\\0', b'1'); print(flush=True); sys.stdin.read()"
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", code], stdin=pipe, stdout=pipe) as child:
        assert child.stdout is not None
        child.stdout.readline()
        assert child.pid in [one.pid for one in family(os.getpid())]
        assert memory_of_all(os.getpid()).pss > memory_of(os.getpid()).pss + 8
        assert processor_of_all(os.getpid()) > 0
        child.communicate()
    with pytest.raises(ProcessLookupError):
        memory_of_all(child.pid)
