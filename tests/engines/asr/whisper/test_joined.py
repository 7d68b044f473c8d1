"""Stretches end to end: what is held, what the times are in the file, and what is left for another one."""

from __future__ import annotations

import itertools
import json
import threading

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeserve.engines.asr.segments import FRAME
from edgeserve.engines.asr.stretches import Source, Stretch, whole
from edgeserve.engines.asr.whisper.joined import Joined
from edgeserve.messages import Pcm

SECOND = 16_000


def stretch(start: int, voiced: list[bool]) -> Stretch:
    """A stretch of whole frames; the value of each sample is its place in the file."""
    samples = numpy.arange(start * FRAME, (start + len(voiced)) * FRAME, dtype=numpy.float32)
    return Stretch(start * FRAME, samples, voiced)


def frames_of(joined: Joined, start: int, end: int) -> tuple[int, int]:
    """``place`` in frames."""
    begins, ends = joined.place(start * FRAME, end * FRAME)
    return round(begins * SECOND / FRAME), round(ends * SECOND / FRAME)


@pytest.fixture
def joined() -> Joined:
    """Speech at 105 to 135 and, joined at 40, at 505 to 535."""
    voiced = [False] * 5 + [True] * 30 + [False] * 5
    joined = Joined(iter([stretch(100, voiced), stretch(500, voiced)]))
    joined.read(0, 80 * FRAME)
    return joined


def test_windows_are_read_across_pieces_and_the_past_is_forgotten() -> None:
    audio = numpy.linspace(-1, 1, 95 * SECOND, dtype=numpy.float32)
    source = Source(Pcm(audio.tobytes()), threading.Event())
    joined = Joined(whole(source))
    for low in range(0, len(audio), 7 * SECOND):
        joined.forget(low, low)
        assert (joined.read(low, low + 30 * SECOND) == audio[low : low + 30 * SECOND]).all()
        assert joined._tape.end - joined._tape.start <= 40 * SECOND
    assert len(joined.read(len(audio), len(audio) + 5)) == 0
    assert source.seconds == 95.0
    assert joined.place(3 * SECOND, 90 * SECOND) == (3.0, 90.0)


def test_a_silence_gives_others_their_turn_and_leaves_no_trace() -> None:
    joined = Joined(iter([None, None, stretch(100, [True] * 40), None, stretch(500, [True] * 40), None]))
    assert list(joined.hear(10 * FRAME)) == [None, None]
    assert list(joined.hear(40 * FRAME)) == []
    assert list(joined.hear(41 * FRAME)) == [None]
    assert len(joined.read(0, 90 * FRAME)) == 80 * FRAME
    assert list(joined.hear(90 * FRAME)) == []
    assert frames_of(joined, 0, 38) == (100, 138)


def test_times_are_those_of_the_speech_in_the_file(joined: Joined) -> None:
    assert frames_of(joined, 0, 38) == (105, 135)
    assert frames_of(joined, 42, 80) == (505, 535)
    assert frames_of(joined, 10, 20) == (110, 120)


def test_what_ends_a_little_late_or_begins_early_belongs_to_its_own_side(joined: Joined) -> None:
    assert frames_of(joined, 2, 48) == (105, 135), "three frames of the next"
    assert frames_of(joined, 31, 75) == (505, 535), "four frames of the one before"


def test_pauses_lie_between_speech_and_speech() -> None:
    voiced = [False] * 15 + [True] * 30 + [False] * 15
    joined = Joined(iter([stretch(100, voiced), stretch(500, voiced), stretch(560, voiced)]))
    joined.read(0, 180 * FRAME)
    assert joined.pauses(0, 180 * FRAME) == [60 * FRAME, 120 * FRAME], "a silence left out, and one that is heard"
    assert joined.pauses(0, 64 * FRAME) == []
    assert joined.pauses(50 * FRAME, 110 * FRAME) == []


def test_silences_and_the_length_of_speech(joined: Joined) -> None:
    assert joined.silences(0, 80 * FRAME) == [(0, 5 * FRAME), (35 * FRAME, 45 * FRAME), (75 * FRAME, 80 * FRAME)]
    assert joined.silences(10 * FRAME, 40 * FRAME) == [(35 * FRAME, 40 * FRAME)]
    assert joined.speech_seconds(0, 40 * FRAME) == pytest.approx(30 * FRAME / SECOND)
    undetected = Joined(whole([numpy.zeros(SECOND, numpy.float32)]))
    undetected.read(0, SECOND)
    assert (undetected.silences(0, SECOND), undetected.speech_seconds(0, SECOND)) == ([], None)


@given(st.lists(st.tuples(st.integers(0, 50), st.lists(st.booleans(), min_size=1, max_size=40)), min_size=1), st.data())
def test_times_lie_in_the_stretches_and_in_order(parts: list[tuple[int, list[bool]]], data: st.DataObject) -> None:
    stretches, at = [], 0
    for gap, voiced in parts:
        stretches.append(stretch(at + gap, voiced))
        at += gap + len(voiced)
    joined = Joined(iter(stretches))
    length = sum(len(one.samples) for one in stretches)
    held = joined.read(0, length)
    assert (held == numpy.concatenate([one.samples for one in stretches])).all()
    low = data.draw(st.integers(0, length - 1))
    high = data.draw(st.integers(low + 1, length))
    begins, ends = (round(time * SECOND) for time in joined.place(low, high))
    assert held[low] <= begins < ends <= held[high - 1] + 1
    inside = [one for one, after in itertools.pairwise([*stretches, None]) if one and one.start <= begins]
    assert begins < inside[-1].start + len(inside[-1].samples)


def seen(joined: Joined, low: int, high: int) -> list[object]:
    """All that is known of the samples ``low`` to ``high``."""
    heard = joined.read(low, high).tolist()
    spoken = joined.speech_seconds(low, high)
    reached = joined.reach(low + FRAME, high - FRAME, low, high)
    return [heard, spoken, joined.silences(low, high), joined.pauses(low, high), joined.place(low, high), reached]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.lists(st.booleans(), min_size=1, max_size=40)), min_size=2),
    st.data(),
)
def test_what_is_left_is_enough_to_go_on(parts: list[tuple[int, list[bool]]], data: st.DataObject) -> None:
    """Another one that reads the file from the place on knows the same of all that was not forgotten."""
    stretches, at = [], 0
    for gap, voiced in parts:
        stretches.append(stretch(at + gap, voiced))
        at += gap + len(voiced)
    length = sum(len(one.samples) for one in stretches)
    first = Joined(iter(stretches))
    first.read(0, data.draw(st.integers(1, length)))
    samples = data.draw(st.integers(0, length))
    speech = data.draw(st.integers(0, samples))
    first.forget(samples, speech)
    place, known = first.left()
    follows = [one for one in stretches if one.start >= place.at]
    assert follows[0].place == place
    second = Joined(iter(follows), json.loads(json.dumps(known)))
    first.read(0, length)
    second.read(0, length)
    held = first._tape.start
    assert second._tape.start <= held <= second._tape.start + len(follows[0].samples)
    assert seen(second, held, length) == seen(first, held, length) or held == length
    low = min(speech // FRAME * FRAME, length - FRAME)
    assert second.place(low, length) == first.place(low, length)
    assert second.speech_seconds(low, length) == first.speech_seconds(low, length)
