"""Audio read in windows: what is held, and what the times are in the file."""

from __future__ import annotations

import gc
import itertools
import threading
import weakref
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeserve.engines.asr.families import windows
from edgeserve.engines.asr.segments import FRAME
from edgeserve.engines.asr.stretches import Joined, Source, Stretch, Tape, whole
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


SPLITS: dict[str, Callable[[Iterable[Any]], Iterator[Stretch | None]]] = {"whole": whole, "windows": windows}


@pytest.mark.parametrize("name", SPLITS)
@given(st.lists(st.integers(0, 3), max_size=30))
def test_others_have_their_turn_while_no_sound_comes(name: str, pauses: list[int]) -> None:
    """Empty pieces are turns, and change nothing else."""
    audio = numpy.linspace(-1, 1, max(1, len(pauses)) * 3 * SECOND + 7, dtype=numpy.float32)
    full = [audio[at : at + 3 * SECOND] for at in range(0, len(audio), 3 * SECOND)]
    late = itertools.chain.from_iterable(
        [*itertools.repeat(audio[:0], pause), one] for one, pause in itertools.zip_longest(full, pauses, fillvalue=0)
    )
    told = list(SPLITS[name](late))
    assert told.count(None) == sum(pauses)
    found = [(one.start, one.samples.tolist()) for one in told if one is not None]
    assert found == [(one.start, one.samples.tolist()) for one in SPLITS[name](full) if one is not None]


def test_a_silence_gives_others_their_turn_and_leaves_no_trace() -> None:
    joined = Joined(iter([None, None, stretch(100, [True] * 40), None, stretch(500, [True] * 40), None]))
    assert list(joined.hear(10 * FRAME)) == [None, None]
    assert list(joined.hear(40 * FRAME)) == []
    assert list(joined.hear(41 * FRAME)) == [None]
    assert len(joined.read(0, 90 * FRAME)) == 80 * FRAME
    assert list(joined.hear(90 * FRAME)) == []
    assert frames_of(joined, 0, 38) == (100, 138)


def test_floats_that_are_no_sound_are_brought_into_range() -> None:
    wild = numpy.array([3e38, -3e38, numpy.inf, -numpy.inf, numpy.nan, 0.25], numpy.float32)
    (piece,) = Source(Pcm(wild.tobytes()), threading.Event())
    assert piece.tolist() == [1, -1, 1, -1, 0, 0.25]


def test_a_cancelled_source_ends() -> None:
    cancel = threading.Event()
    arrays = iter(Source(Pcm(bytes(4 * 30 * SECOND)), cancel))
    assert len(next(arrays)) == 10 * SECOND
    cancel.set()
    assert list(arrays) == []


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


def test_a_tape_does_not_hold_what_it_forgot() -> None:
    samples = numpy.zeros(1000, numpy.float32)
    held = weakref.ref(samples)
    tape = Tape()
    tape.add(samples)
    del samples
    tape.forget(990)
    gc.collect()
    assert held() is None
    assert (tape.start, tape.end) == (990, 1000)
    assert len(tape.read(0, 995)) == 5


@given(st.lists(st.tuples(st.integers(0, 40), st.integers(0, 100)), min_size=1, max_size=12), st.integers(0, 300))
def test_a_tape_reads_what_was_added_and_not_forgotten(steps: list[tuple[int, int]], low: int) -> None:
    """Each step adds samples, then forgets a percentage of all that the tape holds."""
    tape, whole, start = Tape(), numpy.empty(0, numpy.float32), 0
    for count, percent in steps:
        tape.add(numpy.arange(len(whole), len(whole) + count))
        whole = numpy.arange(len(whole) + count, dtype=numpy.float32)
        start += (tape.end - tape.start) * percent // 100
        tape.forget(start)
        assert (tape.start, tape.end) == (start, len(whole))
        for high in (low, low + 7, len(whole), len(whole) + 1):
            assert tape.read(low, high).tolist() == whole[max(low, start) : max(high, start)].tolist()
