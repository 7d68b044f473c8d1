"""Spans of speech from probabilities."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeserve.engines.asr.segments import BEGINS, SHORTEST_FRAMES, Rules, Segmenter, Span

RULES = Rules(silence=8, pad=3, longest=60)


def spans(chances: list[float], rules: Rules = RULES) -> list[tuple[int, int]]:
    segmenter = Segmenter(rules)
    return bounds(segmenter.feed(chances)) + bounds(segmenter.end())


def bounds(spans: Iterable[Span]) -> list[tuple[int, int]]:
    found = list(spans)
    assert all(len(span.voiced) == span.high - span.low for span in found)
    return [(span.low, span.high) for span in found]


def said(*runs: tuple[int, float]) -> list[float]:
    return [chance for count, chance in runs for _ in range(count)]


def test_speech_keeps_some_of_the_silence_around_it() -> None:
    assert spans(said((20, 0.0), (10, 0.9), (20, 0.0))) == [(17, 33)]


def test_a_span_tells_where_in_it_the_speech_is() -> None:
    segmenter = Segmenter(RULES)
    (span,) = segmenter.feed(said((20, 0.0), (10, 0.9), (2, 0.1), (4, 0.9), (20, 0.0)))
    assert list(span.voiced) == [False] * 3 + [True] * 10 + [False] * 2 + [True] * 4 + [False] * 3


def test_short_silences_stay() -> None:
    assert spans(said((7, 0.0), (10, 0.9), (7, 0.0), (10, 0.9), (7, 0.0))) == [(0, 41)]


def test_a_long_silence_parts() -> None:
    assert spans(said((10, 0.9), (8, 0.0), (10, 0.9))) == [(0, 13), (15, 28)]


def test_what_has_begun_goes_on_at_a_lower_probability() -> None:
    assert spans(said((20, 0.4), (10, 0.6), (10, 0.4), (20, 0.1))) == [(17, 43)]
    assert spans(said((60, 0.4))) == []


def test_a_click_is_no_speech() -> None:
    assert spans(said((20, 0.0), (2, 0.9), (20, 0.0))) == []


def test_long_speech_is_cut_in_its_pause() -> None:
    found = spans(said((45, 0.9), (6, 0.1), (45, 0.9)))
    assert len(found) == 2
    assert found[0][1] == found[1][0]
    assert 46 <= found[0][1] <= 50


def test_a_short_silence_stays_where_long_speech_was_cut_in_it() -> None:
    assert spans(said((54, 0.9), (6, 0.0), (3, 0.9))) == [(0, 56), (56, 63)]


def test_rules_that_cannot_hold_are_refused() -> None:
    with pytest.raises(ValueError, match="two pads"):
        Rules(silence=5, pad=3, longest=100)


chances = st.lists(
    st.tuples(st.integers(1, 40), st.sampled_from([0.0, 0.2, 0.4, 0.6, 0.99])), max_size=20
).map(lambda runs: said(*runs))  # fmt: skip


@given(chances)
def test_spans_lie_in_order_within_the_audio_and_are_not_too_long(chances: list[float]) -> None:
    found = spans(chances)
    edges = [edge for span in found for edge in span]
    assert edges == sorted(edges)
    assert all(0 <= low < high <= len(chances) and high - low <= RULES.longest for low, high in found)
    gaps = [after[0] - before[1] for before, after in itertools.pairwise(found)]
    assert all(gap == 0 or gap >= RULES.silence - 2 * RULES.pad for gap in gaps)


@given(chances)
def test_no_speech_is_lost_but_clicks(chances: list[float]) -> None:
    held = {frame for low, high in spans(chances) for frame in range(low, high)}
    at = 0
    for loud, run in itertools.groupby(chances, key=lambda chance: chance >= BEGINS):
        count = len(list(run))
        if loud and count >= SHORTEST_FRAMES:
            assert set(range(at, at + count)) <= held
        at += count


@given(chances, st.integers(1, 50))
def test_how_the_audio_comes_makes_no_difference(chances: list[float], size: int) -> None:
    segmenter = Segmenter(RULES)
    found, needed = [], 0
    for at in range(0, len(chances), size):
        found += bounds(segmenter.feed(chances[at : at + size]))
        assert segmenter.needed >= needed, "what was let go is wanted again"
        needed = segmenter.needed
        assert min(at + size, len(chances)) - needed <= RULES.longest + RULES.silence
    found += bounds(segmenter.end())
    assert found == spans(chances)


@given(chances, st.data())
def test_another_one_goes_on_with_what_was_found(chances: list[float], data: st.DataObject) -> None:
    middle = data.draw(st.integers(0, len(chances)))
    first = Segmenter(RULES)
    found = bounds(first.feed(chances[:middle]))
    known = json.dumps(first.state())
    list(first.feed(chances[middle:]))
    second = Segmenter(RULES, json.loads(known))
    found += bounds(second.feed(chances[middle:])) + bounds(second.end())
    assert found == spans(chances)
