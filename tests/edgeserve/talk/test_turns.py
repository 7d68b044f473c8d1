from __future__ import annotations

import random

import pytest
from support.sound import silence, speech

from edgeserve.talk.turns import LULL_SECONDS, Rules, TurnFinder


def marks(sound: bytes, rules: Rules | None = None, step: int = 6_400, since: float = 0.0) -> list[tuple[str, float]]:
    finder = TurnFinder(rules or Rules(), since)
    found = [mark for at in range(0, len(sound), step) for mark in finder.feed(sound[at : at + step])]
    return [(mark.kind, round(mark.at, 2)) for mark in found]


def test_a_turn_begins_before_its_speech_and_ends_with_silence() -> None:
    found = marks(silence(1) + speech(1) + silence(1))
    assert [kind for kind, _ in found] == ["started", "lull", "stopped"]
    times = dict(found)
    assert times["started"] == pytest.approx(0.7, abs=0.1)
    assert times["lull"] == pytest.approx(2 + LULL_SECONDS, abs=0.1)
    assert times["stopped"] == pytest.approx(2.5, abs=0.1)


def test_a_short_pause_ends_no_turn() -> None:
    found = marks(speech(1) + silence(0.3) + speech(1) + silence(1))
    assert [kind for kind, _ in found] == ["started", "lull", "resumed", "lull", "stopped"]


def test_a_click_is_no_turn() -> None:
    assert marks(silence(1) + speech(0.08) + silence(1)) == []


def test_times_go_on_from_the_start_that_is_given() -> None:
    early, late = marks(speech(1) + silence(1)), marks(speech(1) + silence(1), since=10.0)
    assert [(kind, round(at + 10, 2)) for kind, at in early] == late


def test_words_end_a_turn_at_a_lull_alone() -> None:
    finder = TurnFinder(Rules(silence=4.0, semantic=True))
    finder.feed(speech(1))
    assert finder.finish() == []
    finder.feed(silence(0.4))
    assert [mark.kind for mark in finder.finish()] == ["stopped"]
    assert not finder.speaking
    assert finder.finish() == []


def test_pieces_of_any_length_give_the_same_marks() -> None:
    sound = silence(0.4) + speech(0.8) + silence(0.7) + speech(0.5) + silence(0.6)
    chance = random.Random(7)
    whole = marks(sound)
    for _ in range(5):
        assert marks(sound, step=4 * chance.randrange(1, 5_000)) == whole
