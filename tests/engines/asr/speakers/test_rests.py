"""The state of a diarization that rests."""

from __future__ import annotations

from typing import Any

import numpy
import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeserve.engines.asr.speakers.rests import VOICE, Known
from edgeserve.engines.asr.speakers.turns import Heard, windows
from edgeserve.engines.asr.stretches import START, Place

SECOND = 16_000


def known(references: int, *frames: int) -> Known:
    """Stretches of so many frames, one behind the other."""
    draw = numpy.random.default_rng(len(frames))
    voices = [numpy.maximum(draw.normal(size=(len(windows(one)), VOICE)), 0).astype("f4") for one in frames]
    heard = [Heard(1500 * at, one, voice) for at, (one, voice) in enumerate(zip(frames, voices, strict=True))]
    return Known(START, draw.random((references, VOICE), numpy.float32), heard)


def alike(one: Heard, other: Heard) -> bool:
    return (one.start, one.frames) == (other.start, other.frames) and numpy.array_equal(one.voices, other.voices)


@given(st.integers(0, 4), st.lists(st.integers(40, 1500), max_size=8))
def test_all_that_was_known_is_known_behind_a_rest(references: int, frames: list[int]) -> None:
    before = known(references, *frames)
    rest = before.rest(Place(40 * SECOND, {"heard": 7}))
    assert rest is not None
    behind = Known.at_rest(rest)
    assert behind.place == before.place == Place(40 * SECOND, {"heard": 7})
    assert numpy.array_equal(behind.references, before.references)
    assert len(behind.heard) == len(before.heard)
    assert all(map(alike, behind.heard, before.heard))


@pytest.mark.parametrize(("first", "nearest"), [(0, 30), (600, 30), (1800, 90)])
def test_the_next_rest_is_farther_the_more_is_skipped(first: int, nearest: int) -> None:
    """Also from the latest one that was offered: each has all voices, up to 8 MB."""
    begin: Any = known(0, 160)
    begin.place = Place(first * SECOND)
    assert begin.rest(Place((first + nearest) * SECOND - 1)) is None
    assert begin.rest(Place((first + nearest) * SECOND)) is not None
    assert begin.rest(Place((first + nearest) * SECOND)) is None
