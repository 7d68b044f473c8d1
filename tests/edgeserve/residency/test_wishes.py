"""Wishes of clients that an engine stays: the longest one counts, and each client changes its own alone."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gates import Clock

from edgeserve.clients import Client
from edgeserve.residency.wishes import LONGEST_SECONDS, MOST, UNTOLD_SECONDS, Wishes

ADA, BOB = Client(address="10.0.0.1").groups, Client(address="10.0.0.2").groups


def test_a_client_alone_gets_what_it_asked_for_last() -> None:
    wishes = Wishes(Clock())
    for wanted in (None, 0.0, 3600.0, math.inf, 0.0, None):
        assert wishes.agreed(ADA, wanted) == wanted
        wishes.note(ADA, wanted)


@pytest.mark.parametrize(
    ("others", "stays"), [(None, UNTOLD_SECONDS), (600.0, 600.0), (math.inf, LONGEST_SECONDS), (0.0, 0.0)]
)
def test_nobody_ends_the_time_of_another_client(others: float | None, stays: float) -> None:
    clock = Clock()
    wishes = Wishes(clock)
    wishes.note(BOB, others)
    assert wishes.agreed(ADA, 0.0) == stays
    clock.now += 10
    assert wishes.agreed(ADA, 0.0) == max(0.0, stays - 10)
    wishes.stamp(BOB)
    assert wishes.agreed(ADA, 0.0) == stays
    clock.now += LONGEST_SECONDS
    assert wishes.agreed(ADA, 0.0) == 0.0
    assert wishes.of_others(BOB) == 0.0


def test_the_number_of_clients_is_bounded() -> None:
    wishes = Wishes(Clock())
    wishes.note(ADA, math.inf)
    for number in range(MOST):
        wishes.note(Client(address=str(number)).groups, 0.0)
    assert wishes.of_others(BOB) == 0.0


@given(st.lists(st.tuples(st.integers(0, 3), st.none() | st.floats(0, 1000), st.floats(0, 100)), max_size=30))
def test_an_engine_stays_as_long_as_the_longest_wish(steps: list[tuple[int, float | None, float]]) -> None:
    clock = Clock()
    wishes, ends = Wishes(clock), dict[int, float]()
    for who, wanted, pause in steps:
        clock.now += pause
        agreed = wishes.agreed(Client(address=str(who)).groups, wanted)
        wishes.note(Client(address=str(who)).groups, wanted)
        ends[who] = clock.now + (UNTOLD_SECONDS if wanted is None else wanted)
        stays = UNTOLD_SECONDS if agreed is None else agreed
        assert clock.now + stays == pytest.approx(max([clock.now, *ends.values()]))
