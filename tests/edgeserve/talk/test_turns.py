from __future__ import annotations

import pytest

from edgeserve.talk.detection import FRAME_SECONDS, LOUDNESS, VERDICTS
from edgeserve.talk.turns import LULL_SECONDS, Rules, TurnFinder


def flags(*parts: tuple[int, float]) -> bytes:
    """So many seconds of frames with each flag."""
    return b"".join(bytes([flag]) * round(seconds / FRAME_SECONDS) for flag, seconds in parts)


def marks(
    *parts: tuple[int, float], rules: Rules | None = None, since: float = 0.0, starts: tuple[int, int] = LOUDNESS
) -> list[tuple[str, float]]:
    found = TurnFinder(rules or Rules(), since).feed(flags(*parts), starts)
    return [(mark.kind, round(mark.at, 2)) for mark in found]


def test_a_turn_begins_before_its_speech_and_ends_with_silence() -> None:
    found = marks((0, 1), (1, 1), (0, 1))
    assert [kind for kind, _ in found] == ["started", "lull", "stopped"]
    times = dict(found)
    assert times["started"] == pytest.approx(0.7, abs=0.1)
    assert times["lull"] == pytest.approx(2 + LULL_SECONDS, abs=0.1)
    assert times["stopped"] == pytest.approx(2.5, abs=0.1)


def test_a_short_pause_ends_no_turn() -> None:
    found = marks((1, 1), (0, 0.3), (1, 1), (0, 1))
    assert [kind for kind, _ in found] == ["started", "lull", "resumed", "lull", "stopped"]


def test_a_click_is_no_turn() -> None:
    assert marks((0, 1), (1, 0.09), (0, 1)) == []


def test_times_go_on_from_the_start_that_is_given() -> None:
    early, late = marks((1, 1), (0, 1)), marks((1, 1), (0, 1), since=10.0)
    assert [(kind, round(at + 10, 2)) for kind, at in early] == late


def test_a_detector_needs_fewer_frames_to_begin_a_turn() -> None:
    assert marks((0, 1), (1, 0.1), (0, 0.1)) == []
    assert [kind for kind, _ in marks((0, 1), (1, 0.1), (0, 0.1), starts=VERDICTS)] == ["started"]
    assert marks((0, 1), (1, 0.07), (0, 0.1), starts=VERDICTS) == []


def test_words_end_a_turn_at_a_lull_alone() -> None:
    finder = TurnFinder(Rules(silence=4.0, semantic=True))
    finder.feed(flags((1, 1)))
    assert finder.finish() == []
    finder.feed(flags((0, 0.4)))
    assert [mark.kind for mark in finder.finish()] == ["stopped"]
    assert not finder.speaking
    assert finder.finish() == []


def test_words_that_are_over_wait_for_the_shortest_pause() -> None:
    for more, kinds in ((0, ["stopped"]), (1, ["resumed"])):
        finder = TurnFinder(Rules(silence=4.0, semantic=True, pause=0.6))
        finder.feed(flags((1, 1), (0, 0.4)))
        assert finder.finish() == []
        found = finder.feed(flags((more, 0.15), (0, 0.1)))
        assert [mark.kind for mark in found] == kinds


def test_speech_takes_the_end_by_words_back() -> None:
    finder = TurnFinder(Rules(silence=4.0, semantic=True, pause=0.6))
    finder.feed(flags((1, 1), (0, 0.4)))
    finder.finish()
    assert [mark.kind for mark in finder.feed(flags((1, 0.5), (0, 1)))] == ["resumed", "lull"]


def test_skipped_frames_count_as_time() -> None:
    finder = TurnFinder(Rules())
    finder.feed(flags((1, 1)))
    before = finder.now
    finder.clear(10)
    assert not finder.speaking
    assert finder.now == pytest.approx(before + 10 * FRAME_SECONDS)
