"""Turns from the voices of windows."""

from __future__ import annotations

import itertools
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeserve.engines.asr.speakers.turns import HOP, MOST_SPEAKERS, SHORTEST, WINDOW, Heard, turns, windows

NOBODY = numpy.empty((0, 0), numpy.float32)
AXES = numpy.eye(64, dtype=numpy.float32)


def stretch(start: int, frames: int, *speakers: int) -> Heard:
    """A stretch whose windows sound like these speakers, in equal parts."""
    count = len(windows(frames))
    return Heard(start, frames, AXES[[speakers[at * len(speakers) // count] for at in range(count)]])


def spoken(*heard: Heard, references: Any = NOBODY) -> list[tuple[int, int, int]]:
    return [(one.start, one.end, one.speaker) for one in turns(heard, references) if one is not None]


@given(st.integers(0, 3000))
def test_windows_cover_a_stretch_without_leaving_it(frames: int) -> None:
    found = windows(frames)
    if frames < SHORTEST:
        assert found == ()
        return
    assert found[0][0] == 0
    assert found[-1][1] == frames
    assert all(end - start == min(WINDOW, frames) for start, end in found)
    assert all(0 < later[0] - earlier[0] <= HOP for earlier, later in itertools.pairwise(found))


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(SHORTEST, 2000), st.integers(0, 5)), min_size=1, max_size=12))
def test_turns_fill_each_stretch_in_order(parts: list[tuple[int, int]]) -> None:
    at, heard = 0, []
    for frames, speaker in parts:
        heard.append(stretch(at, frames, speaker))
        at += frames + 30
    found = spoken(*heard)
    assert all(start < end for start, end, _ in found)
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(found))
    assert sum(end - start for start, end, _ in found) == sum(frames for frames, _ in parts)


def test_two_speakers_take_turns() -> None:
    heard = stretch(0, 400, 7), stretch(450, 400, 3), stretch(900, 400, 7)
    assert spoken(*heard) == [(0, 400, 0), (450, 850, 1), (900, 1300, 0)]


def test_a_change_without_a_pause_is_found_to_half_a_window() -> None:
    first, second = spoken(stretch(100, 1600, 1, 2))
    assert (first[0], first[2], second[1], second[2]) == (100, 0, 1700, 1)
    assert first[1] == second[0] == pytest.approx(900, abs=WINDOW / 2)


def test_a_single_window_of_another_voice_joins_a_speaker() -> None:
    """A cough, or two people at once, is no further speaker."""
    mixed = Heard(500, 100, (0.8 * AXES[:1] + 0.6 * AXES[9:10]))
    assert {one[2] for one in spoken(stretch(0, 480, 0), mixed, stretch(700, 480, 1))} == {0, 1}
    assert spoken(stretch(0, 480, 0), mixed)[-1] == (500, 600, 0)


def test_a_short_recording_has_a_speaker_all_the_same() -> None:
    assert spoken(stretch(20, 60, 4)) == [(20, 80, 0)]
    assert spoken() == []


def test_known_speakers_come_first_and_others_follow() -> None:
    heard = stretch(0, 400, 5), stretch(450, 400, 2), stretch(900, 400, 8)
    assert [one[2] for one in spoken(*heard, references=AXES[[3, 2]])] == [2, 1, 3]
    assert [one[2] for one in spoken(*heard, references=AXES[[8, 5]])] == [1, 2, 0]


def test_two_groups_that_are_like_one_reference_are_that_speaker() -> None:
    """They are too unlike each other to be one group: cosine 0.62, 0.9 each to the reference."""
    angle = numpy.arccos(0.9)
    pair = [numpy.cos(angle) * AXES[0] + sign * numpy.sin(angle) * AXES[1] for sign in (1, -1)]
    heard = [Heard(at * 500, 400, numpy.repeat(one[None], len(windows(400)), 0)) for at, one in enumerate(pair)]
    assert [one[2] for one in spoken(*heard)] == [0, 1]
    assert [one[2] for one in spoken(*heard, references=AXES[:1])] == [0, 0]


def test_no_more_speakers_than_letters() -> None:
    heard = [stretch(at * 500, 400, at) for at in range(40)]
    assert len({one[2] for one in spoken(*heard)}) == MOST_SPEAKERS
