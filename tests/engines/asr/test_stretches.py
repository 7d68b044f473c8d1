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
from edgeserve.engines.asr.stretches import Source, Stretch, Tape, whole
from edgeserve.messages import Pcm

SECOND = 16_000


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
