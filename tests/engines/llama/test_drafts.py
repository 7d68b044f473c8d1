"""The length of drafts, and what answers teach about it."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as some

from edgeserve.engines.llama.chances import FIRST, FIRST_WEIGHT, FORCED, SURE
from edgeserve.engines.llama.drafts import CROWDED, PLAIN_EVERY, Drafter, Drafts, Guess
from edgeserve.engines.llama.pace import Pace

LONGEST = 16


def drafts_of(slope: float) -> Drafts:
    """Drafts on a machine where each further token costs ``slope`` times a call of one."""
    drafts = Drafts(LONGEST)
    for size in range(1, 40):
        drafts.pace.note(size, 1.0 + slope * (size - 1))
    return drafts


def guess(chance: float, length: int = LONGEST) -> Guess:
    return Guess(range(length), chance, 0)


def test_cheap_calls_take_long_drafts_and_dear_ones_none() -> None:
    assert drafts_of(0.02).plan([guess(0.95)], 100) == [LONGEST]
    assert drafts_of(1.0).plan([guess(SURE)], 100) == [0]


def test_a_dear_call_of_two_tokens_does_not_hide_that_longer_ones_pay() -> None:
    """Costs of a model of 0.6 B in Q4_0 on two cores: 1.8 calls of one for two tokens, 2.2 for four, 3.2 for eight."""
    drafts, costs = Drafts(LONGEST), {1: 1.0, 2: 1.8, 3: 2.0, 4: 2.2, 5: 2.4, 6: 2.7, 7: 2.9, 8: 3.2}
    for _ in range(8):
        size = 1 + drafts.plan([guess(0.85, 7)], 100)[0]
        drafts.pace.note(size, costs[size])
    assert size == 6


def test_where_longer_calls_never_pay_few_are_tried() -> None:
    drafts, sizes = Drafts(LONGEST), list[int]()
    for _ in range(200):
        sizes.append(1 + drafts.plan([guess(0.95)], 100)[0])
        drafts.pace.note(sizes[-1], float(sizes[-1]))
    assert sum(size > 1 for size in sizes) <= 4


def test_likelier_guesses_make_longer_drafts() -> None:
    lengths = [drafts_of(0.2).plan([guess(chance)], 100)[0] for chance in (0.1, 0.5, 0.8, 0.95)]
    assert lengths == sorted(lengths)
    assert lengths[0] == 0
    assert lengths[-1] > lengths[1] > 0


def test_beside_others_a_draft_makes_the_call_a_quarter_longer_at_most() -> None:
    drafts = drafts_of(0.1)
    counts = drafts.plan([guess(SURE), None, None], 100)
    assert counts[0] > 0
    assert drafts.pace.cost(3 + counts[0]) <= CROWDED * drafts.pace.cost(3)
    assert counts[1:] == [0, 0]


def test_the_likelier_guess_is_drafted_first() -> None:
    counts = drafts_of(0.05).plan([guess(0.6), guess(SURE)], 100)
    assert counts[1] > counts[0]


def test_a_draft_loses_no_more_than_it_may_if_all_of_it_is_wrong() -> None:
    drafts = drafts_of(0.1)
    lengths = []
    for limit in (0.0, 0.35, 0.95, 9.0):
        (length,) = drafts.plan([Guess(range(LONGEST), SURE, 0, limit=limit)], 100)
        lengths.append(length)
    assert lengths == [0, 3, 9, LONGEST]


def test_a_size_of_call_that_nobody_knows_is_tried_at_the_cost_of_the_engine() -> None:
    drafts = Drafts(LONGEST)
    drafts.pace.note(1, 1.0)
    assert drafts.plan([Guess(range(LONGEST), SURE, 0, limit=0.0, cover=9.0)], 100) == [1]
    drafts.pace.note(2, 1.2)
    drafts.pace.note(4, 1.6)
    drafts.pace.note(8, 2.0)
    drafts.pace.note(17, 2.5)
    assert drafts.plan([Guess(range(LONGEST), SURE, 0, limit=0.0, cover=9.0)], 100) == [0]


def test_a_draft_gains_the_calls_that_it_saves_and_costs_the_rest_of_its_call() -> None:
    drafts, found = drafts_of(0.1), guess(SURE)
    drafts.plan([found], 100)
    assert drafts.gain(found, 5, 5) == pytest.approx(5 - 0.5)
    assert drafts.gain(found, 5, 0) == pytest.approx(-0.5)
    found.others = found.answers = 2  # beside another answer, whose token is half of the call
    assert drafts.gain(found, 5, 5) == pytest.approx(5 * 1.1 / 2 - 0.5)


def test_there_is_no_draft_before_a_call_was_measured() -> None:
    assert Drafts(LONGEST).plan([guess(SURE)], 100) == [0]


def test_now_and_then_a_call_without_a_draft_measures_what_they_are_compared_with() -> None:
    drafts = drafts_of(0.02)
    planned = [drafts.plan([guess(SURE)], 100)[0] for _ in range(2 * PLAIN_EVERY + 2)]
    assert planned.count(0) == 2


@given(
    some.lists(
        some.none() | some.builds(guess, some.floats(0, SURE), some.integers(1, LONGEST)), min_size=1, max_size=6
    ),
    some.integers(-3, 40),
    some.floats(0, 2),
)
def test_a_plan_stays_within_its_bounds(guesses: list[Guess | None], room: int, slope: float) -> None:
    counts = drafts_of(slope).plan(guesses, room)
    assert len(counts) == len(guesses)
    assert sum(counts) <= max(0, min(room, LONGEST))
    for one, count in zip(guesses, counts, strict=True):
        assert 0 <= count <= (len(one.tokens) if one else 0)


@given(some.floats(0, SURE), some.floats(0, 1))
def test_a_draft_promises_more_tokens_a_second_than_none(chance: float, slope: float) -> None:
    drafts = drafts_of(slope)
    (count,) = drafts.plan([guess(chance)], 100)
    expected = sum(chance**one for one in range(count + 1))
    assert expected / drafts.pace.cost(1 + count) >= 1 / drafts.pace.cost(1)


def written(drafter: Drafter, tokens: Sequence[int]) -> None:
    """One token a call, none of the guesses decoded."""
    for token in tokens:
        drafter.guess()
        drafter.note([token])


def test_guesses_that_are_not_decoded_teach_all_the_same() -> None:
    text = list(range(40))
    copying, other = Drafts(LONGEST), Drafts(LONGEST)
    written(copying.writer(text), text)
    written(other.writer([*text, *text[:20]]), [99, 0, 1, 98, 5, 6, 97, 11, 12, 96])
    assert copying.chances.of(3) > 0.7
    assert other.chances.of(0) < 0.5


def test_a_refused_draft_counts_up_to_its_first_wrong_token() -> None:
    drafts = Drafts(LONGEST)
    drafter = drafts.writer([1, 2, 3, 4, 5, 6, 1, 2])
    found = drafter.guess()
    assert found is not None
    assert list(found.tokens[:4]) == [3, 4, 5, 6]
    drafter.note([3, 4, 9])
    weight, first = FIRST_WEIGHT, FIRST[found.kind]
    assert drafts.chances.of(found.kind) == pytest.approx((2 + weight * first) / (3 + weight))


def test_forced_tokens_come_before_found_ones() -> None:
    drafter = Drafts(LONGEST).writer([1, 2, 3, 1, 2])
    found = drafter.guess([7, 8])
    assert found is not None
    assert (list(found.tokens), found.kind) == ([7, 8], FORCED)


@pytest.mark.parametrize(("left", "count"), [(0.0, 0), (0.2, 0), (9.0, 1)])
def test_a_guess_of_the_draft_model_loses_no_more_than_the_purse_has(left: float, count: int) -> None:
    """A call of a size that nobody knew was made at any cost."""
    drafts = Drafts(LONGEST, model=SimpleNamespace(share=0.0, pace=Pace()))  # type: ignore[arg-type]
    drafts.pace.note(1, 1.0)
    drafts.purse.add(left - drafts.purse.left)
    found = drafts.writer([1, 2]).guess()
    assert found is not None
    assert found.open
    assert drafts.plan([found], 100) == [count]


def test_an_engine_without_drafts_guesses_nothing() -> None:
    drafter = Drafts(0).writer([1, 2, 3, 1, 2])
    drafter.note([3])
    assert drafter.guess([1]) is None
    assert Drafts(0).plan([None], 100) == [0]
