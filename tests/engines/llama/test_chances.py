"""Chances of guesses: those of all answers of an engine, and those of one."""

from __future__ import annotations

import pytest
from support.cases import each

from edgeserve.engines.llama.chances import (
    DRAFTED,
    FIRST,
    FIRST_WEIGHT,
    FORCED,
    KINDS,
    RESUMED,
    SURE,
    Chances,
    OwnChances,
    kind_of,
)


def test_chances_follow_what_came_true() -> None:
    chances = Chances()
    assert chances.of(0) == FIRST[0]
    chances.note(0, 40, 40)
    chances.note(1, 40, 0)
    assert chances.of(0) > 0.9
    assert chances.of(1) < 0.1
    assert chances.of(2) == FIRST[2]


def test_an_answer_starts_from_the_chances_of_others_and_learns_its_own() -> None:
    engine = Chances()
    engine.note(0, 60, 0)
    answer = OwnChances(engine)
    assert answer.of(0) < 0.1
    answer.note(0, 30, 30)
    assert answer.of(0) > 0.8
    assert engine.of(0) == pytest.approx((30 + FIRST_WEIGHT * FIRST[0]) / (90 + FIRST_WEIGHT))


def test_an_answer_that_breaks_its_runs_lowers_all_its_chances_from_the_text_and_no_others() -> None:
    engine = Chances()
    before = [engine.of(kind) for kind in range(KINDS)]
    answer = OwnChances(engine)
    for _ in range(6):
        answer.note(2, 1, 0)
    assert all(answer.of(kind) < before[kind] for kind in range(FORCED) if kind != 2)
    assert [answer.of(FORCED), answer.of(DRAFTED)] == pytest.approx(before[FORCED:])
    assert [engine.of(kind) for kind in range(KINDS) if kind != 2] == before[:2] + before[3:]


def test_no_chance_is_below_nothing_or_above_the_surest() -> None:
    engine = Chances()
    engine.note(0, 400, 400)
    answer = OwnChances(engine)
    answer.note(0, 50, 0)
    assert answer.of(1) == 0.0
    other = OwnChances(engine)
    other.note(4, 500, 500)
    assert other.of(4) == SURE


def test_old_guesses_weigh_less() -> None:
    chances = Chances()
    for _ in range(200):
        chances.note(0, 1, 1)
    for _ in range(60):
        chances.note(0, 1, 0)
    assert chances.of(0) < 0.5


@each(
    "matched, copying, kind",
    [
        *[(0, False, RESUMED), (1, True, RESUMED + 1), (2, False, 0), (3, False, 1), (2, True, 5), (3, True, 6)],
        *[(4, False, 2), (7, True, 2), (8, False, 3), (15, False, 3), (16, False, 4), (9999, True, 4)],
    ],
)
def test_the_kind_of_a_guess_follows_from_its_match(matched: int, copying: bool, kind: int) -> None:
    assert kind_of(matched, copying) == kind
