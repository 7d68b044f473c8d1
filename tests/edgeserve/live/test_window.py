"""The sound that a window keeps, and the speech in it."""

from __future__ import annotations

import array
import math
import random

import pytest
from support.cases import each

from edgeserve.errors import InvalidRequest, TooLarge, UnsupportedMedia
from edgeserve.live.window import MAX_PUSH_BYTES, Window, check, check_samples

DICE = random.Random(5)


def noise(seconds: float, loudness: float) -> bytes:
    return array.array("f", [DICE.gauss(0, loudness) for _ in range(round(seconds * 16_000))]).tobytes()


def window(*parts: bytes) -> Window:
    made = Window()
    for part in parts:
        made.append(part)
    return made


@pytest.mark.slow
def test_silence_is_not_kept_and_leads_up_to_speech_by_half_a_second() -> None:
    made = window(noise(9, 1e-4), noise(9, 1e-4))
    assert not made.has_speech
    assert made.seconds < 0.6
    assert made.end == pytest.approx(18)
    made.append(noise(2, 1e-4) + noise(1, 0.1))
    assert made.has_speech
    assert made.start == pytest.approx(19.5, abs=0.07)
    assert made.speech_end == pytest.approx(21, abs=0.04)


@pytest.mark.slow
@pytest.mark.parametrize("floor", [0.0, 1e-3, 0.01])
def test_the_end_of_speech_is_found_over_any_steady_noise(floor: float) -> None:
    made = window(*[noise(2, floor)] * 10, noise(1.5, 0.1), noise(0.9, floor))
    assert made.quiet == pytest.approx(0.9, abs=0.07)


def test_a_click_is_no_speech() -> None:
    assert not window(noise(1, 1e-4), noise(0.04, 0.5), noise(1, 1e-4)).has_speech


def test_pieces_of_any_size_are_the_same_as_the_whole() -> None:
    sound = noise(1, 1e-3) + noise(1, 0.1) + noise(0.5, 1e-3)
    small = window(*(sound[at : at + 4 * 37] for at in range(0, len(sound), 4 * 37)))
    whole = window(sound)
    assert (small.speech_end, small.end) == (whole.speech_end, whole.end)
    assert small.samples()[-1000:] == whole.samples()[-1000:] == sound[-1000:]


def test_dropping_forgets_what_lies_before() -> None:
    made = window(noise(3, 0.1))
    made.drop(2.0)
    assert made.start == pytest.approx(2.0, abs=0.03)
    assert made.end == pytest.approx(3.0)
    assert len(made.samples()) == pytest.approx(64_000, abs=2000)
    made.drop(99)
    assert made.seconds < 0.03


@each(
    ("data", "kind", "text"),
    [
        (bytes(MAX_PUSH_BYTES + 4), TooLarge, "at most 10 s of sound"),
        (b"RIFF1234WAVE", UnsupportedMedia, "raw samples"),
        (bytes(5), InvalidRequest, "5 bytes"),
        (array.array("f", [0.0, math.nan, 0.1]).tobytes(), InvalidRequest, "between -1 and 1"),
        (array.array("f", [0.0, math.inf]).tobytes(), InvalidRequest, "between -1 and 1"),
        (array.array("f", [12000.0, 0.0]).tobytes(), InvalidRequest, "16-bit integers"),
    ],
)
def test_data_that_are_no_samples_are_refused(data: bytes, kind: type[InvalidRequest], text: str) -> None:
    with pytest.raises(kind, match=text):
        checked(data)


def test_samples_are_taken() -> None:
    checked(b"")
    checked(noise(1, 0.3))


def checked(data: bytes) -> None:
    check(data)
    check_samples(data)
