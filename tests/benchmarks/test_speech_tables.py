"""Conclusions that the speech benchmark draws from its runs."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from benchmarks import speech_child, speech_tables
from benchmarks.process import Memory
from benchmarks.speech_sides import DIRECT, ENGINE, HTTP, PEER8, Took
from benchmarks.speech_tables import Runs, word_error

TEXTS = {"short": "One small boat.", "long": "Two small boats on the sea."}


def runs(seconds: dict[str, list[float]], found: object, memory: float = 100.0) -> Runs:
    made = Runs(TEXTS, {"short": 2.0, "long": 4.0})
    for side, times in seconds.items():
        for text in TEXTS:
            for one in times:
                made.add(side, text, Took(one, one / 2, one, TEXTS[text] if found is None else found))
        made.memory[side] = Memory(memory, memory / 2, memory / 2)
    return made


@pytest.mark.parametrize(
    ("heard", "edits"), [("one small, BOAT", 0), ("one boat", 1), ("one small boat ahead", 1), ("won small goat", 2)]
)
def test_words_wrong_are_edits_for_each_word_said(heard: str, edits: int) -> None:
    assert word_error(["One small boat."], [heard]) == pytest.approx(edits / 3)


def test_words_wrong_count_over_all_texts() -> None:
    assert word_error(["one two three", "four"], ["one two three", "five"]) == pytest.approx(1 / 4)


def test_a_ratio_is_the_median_of_the_rounds() -> None:
    made = runs({HTTP: [1.0, 2.0, 1.0], PEER8: [1.5, 2.0, 3.0]}, None)
    assert made.ratio(HTTP, PEER8, "short") == 1.5


def test_targets_are_missed_and_met() -> None:
    heard = runs({HTTP: [1.0], ENGINE: [1.3], PEER8: [1.5]}, None)
    said = runs({HTTP: [1.0], ENGINE: [1.0], DIRECT: [0.5]}, 2.0)
    found = {one.what: one for one in speech_tables.targets(heard, said)}
    assert found[f"{HTTP}: speed, short, against {PEER8}"].met
    assert not found[f"{ENGINE}: speed, short, against {PEER8}"].met
    assert found[f"{HTTP}: words wrong, %"].met
    assert found[f"{HTTP}: memory at most, MB"].met
    assert not found["speech over HTTP: speed, long"].met
    assert found["speech over HTTP: first sound, long, their first sentence = 1"].value == 2.0


def test_every_side_has_a_row() -> None:
    heard = runs({HTTP: [1.0], ENGINE: [1.0], PEER8: [1.5]}, None)
    table = speech_tables.hearing(heard).splitlines()
    assert [line.split("|")[1].strip() for line in table[2:]] == [HTTP, ENGINE, PEER8]
    assert "2.0× (1.50)" in table[2]
    said = runs({HTTP: [1.0], DIRECT: [0.5]}, 2.0)
    assert "1.000 (0.50)" in speech_tables.speaking(said).splitlines()[2]


def test_a_child_times_what_it_yields() -> None:
    def job(text: str) -> Iterator[str]:
        yield text
        yield " and more"

    answer = speech_child.timed(job, "some")
    assert answer["found"] == "some and more"
    assert 0 <= answer["first"] <= answer["seconds"]
