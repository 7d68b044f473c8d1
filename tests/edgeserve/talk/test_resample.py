from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.examples import examples

from edgeserve.talk.resample import Resampler

RATES = [(24_000, 16_000), (8_000, 16_000), (24_000, 8_000), (22_050, 24_000), (16_000, 24_000)]


def tone(pitch: float, rate: int, seconds: float = 0.2) -> list[float]:
    return [math.sin(2 * math.pi * pitch * at / rate) for at in range(round(rate * seconds))]


def loudness(samples: list[float]) -> float:
    return math.sqrt(sum(one * one for one in samples) / len(samples))


@pytest.mark.parametrize(("source", "target"), RATES)
def test_a_tone_keeps_its_pitch_and_its_time(source: int, target: int) -> None:
    one = Resampler(source, target)
    made = one.feed(tone(440, source)) + one.end()
    wanted = tone(440, target)
    assert abs(len(made) - len(wanted)) <= 2
    middle = slice(len(wanted) // 4, len(wanted) * 3 // 4)
    error = [ours - theirs for ours, theirs in zip(made[middle], wanted[middle], strict=True)]
    assert loudness(error) < 0.01


def test_a_tone_above_the_lower_rate_is_filtered_out() -> None:
    made = Resampler(24_000, 8_000).feed(tone(6_000, 24_000))
    assert loudness(made[len(made) // 4 :]) < 0.01


@examples(30)
@given(st.sampled_from(RATES), st.lists(st.integers(0, 400), max_size=12))
def test_pieces_of_any_length_give_the_same_sound(rates: tuple[int, int], lengths: list[int]) -> None:
    sound = tone(300, rates[0], 0.05)
    whole = Resampler(*rates).feed(sound)
    pieces, at, made = Resampler(*rates), 0, []
    for length in (*lengths, len(sound)):
        made += pieces.feed(sound[at : at + length])
        at += length
    assert made == whole


def test_the_same_rate_changes_nothing() -> None:
    same = Resampler(24_000, 24_000)
    assert same.feed([0.1, 0.2]) == [0.1, 0.2]
    assert same.end() == []
