"""Costs of calls by their size."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.cases import each
from support.examples import examples

from edgeserve.engines.llama.pace import FIRST_SLOPE, KEPT, STALE, Pace


def pace_of(**seconds: float) -> Pace:
    """``n4=2.0``: a call of 4 tokens took 2 seconds."""
    pace = Pace()
    for name, one in seconds.items():
        pace.note(int(name[1:]), one)
    return pace


def test_a_measured_size_costs_its_median() -> None:
    pace = Pace()
    for seconds in (1.0, 9.0, 1.2):
        pace.note(1, seconds)
    assert pace.cost(1) == 1.2


def test_only_the_latest_calls_count() -> None:
    pace = Pace()
    for seconds in [9.0] * KEPT + [1.0] * KEPT:
        pace.note(1, seconds)
    assert pace.cost(1) == 1.0


def test_between_two_sizes_the_cost_is_on_their_line() -> None:
    pace = pace_of(n2=1.0, n6=3.0)
    assert pace.cost(3) == pytest.approx(1.5)


def test_beyond_the_largest_size_a_token_is_hoped_to_cost_a_quarter() -> None:
    pace = pace_of(n1=1.0, n3=2.0, n5=5.0)
    assert pace.cost(7) == pytest.approx(5.0 + 2 * FIRST_SLOPE)


def test_the_first_guess_is_a_quarter_a_token() -> None:
    assert pace_of(n1=2.0).cost(3) == pytest.approx(2.0 * (1 + 2 * FIRST_SLOPE))


def test_a_smaller_call_than_any_costs_as_the_smallest() -> None:
    assert pace_of(n3=2.0).cost(1) == 2.0


def test_calls_grow_step_by_step() -> None:
    assert Pace().reach == 0
    assert pace_of(n1=1.0).reach == 2
    assert pace_of(n1=1.0, n4=1.0).reach == 8


def test_the_cost_of_a_size_is_known_up_to_the_largest_that_was_measured() -> None:
    assert not Pace().knows(1)
    assert [pace_of(n1=1.0, n4=1.0).knows(size) for size in (1, 3, 4, 5)] == [True, True, True, False]


def test_a_size_that_no_call_had_for_long_is_forgotten_but_never_the_smallest() -> None:
    pace = pace_of(n1=1.0, n8=9.0)
    for _ in range(2 * STALE):
        pace.note(2, 1.1)
    assert pace.reach == 4
    assert pace.cost(1) == 1.0


@examples(100)
@given(some.lists(some.tuples(some.sampled_from([1, 2, STALE - 2, STALE - 1, STALE]), some.integers(2, 9)), max_size=6))
def test_every_size_has_a_cost_whatever_calls_came(runs: list[tuple[int, int]]) -> None:
    """A size that came as another was forgotten ended the engine, and with it the answers of all clients."""
    pace = pace_of(n1=1.0)
    for plain, size in runs:
        for _ in range(plain):
            pace.note(1, 1.0)
        pace.note(size, 2.0)
        assert all(pace.cost(one) > 0 for one in range(1, 12))
        assert pace.reach >= 2 * size


@pytest.mark.parametrize("late", [3, 5, 9])
def test_a_size_that_comes_as_another_is_forgotten_takes_its_place(late: int) -> None:
    pace = pace_of(n1=1.0, n7=2.0)
    for _ in range(2 * STALE - 3):
        pace.note(1, 1.0)
    pace.note(late, 1.5)
    assert pace.cost(late) == 1.5
    assert pace.cost(8) > 0
    assert pace.reach == 2 * late


@each(
    ("tokens", "seconds"),
    [
        (1, 1.0),
        (2, 1.5),  # between its neighbours
        (3, 2.0),
        (6, 6.0),  # unknown: as long as one after the other
    ],
)
def test_a_call_costs_no_more_than_its_tokens_one_by_one(tokens: int, seconds: float) -> None:
    assert pace_of(n1=1.0, n3=2.0).bound(tokens) == seconds


def test_a_slow_first_measure_of_a_size_is_no_bound() -> None:
    assert pace_of(n1=1.0, n4=90.0).bound(4) == 4.0
    assert pace_of(n4=2.0).bound(1) == 2.0
