"""Threads beside other programs: the decision, and its application."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each

from edgeserve.engines.llama.threads import HOLD, LOOK_EVERY, Threads
from edgeserve.system import cores
from edgeserve.system.beside import beside


@each(
    ("others", "now", "threads"),
    [
        (0.0, 2, 2),
        (0.1, 2, 2),  # an event loop, a client
        (0.67, 2, 1),  # a busy process beside two threads on two cores gets two thirds of one
        (1.0, 1, 1),
        (0.4, 2, 2),  # between the bounds nothing changes
        (0.4, 1, 1),
        (0.2, 1, 2),
        (2.0, 2, 1),
        (9.0, 1, 1),
    ],
)
def test_two_cores(others: float, now: int, threads: int) -> None:
    assert beside(others, now, most=2, count=2) == threads


@each(
    ("others", "now", "most", "count", "threads"),
    [
        (0.8, 4, 4, 4, 3),
        (0.8, 4, 4, 8, 4),  # there is a core for everybody
        (3.0, 4, 4, 4, 1),
        (1.9, 3, 4, 4, 2),
        (0.0, 1, 8, 8, 8),
        (0.0, 4, 4, 2, 4),  # more threads than cores, as configured
        (1.0, 4, 4, 2, 3),
    ],
)
def test_more_cores(others: float, now: int, most: int, count: int, threads: int) -> None:
    assert beside(others, now, most, count) == threads


@given(
    st.floats(0, 64),
    st.integers(1, 16).flatmap(lambda most: st.tuples(st.just(most), st.integers(1, most))),
    st.integers(1, 64),
)
def test_the_number_is_possible_and_stays_under_the_same_load(
    others: float, sizes: tuple[int, int], count: int
) -> None:
    most, now = sizes
    found = beside(others, now, most, count)
    assert 1 <= found <= most
    assert beside(others, found, most, count) == found


class Loads:
    """Others take these loads, one a reading. The first ``python`` of them are of Python threads of this process."""

    def __init__(self, *loads: float | None, python: int = 0) -> None:
        self.left = list(loads)
        self.python = 0.0
        self._of_python = python

    def read(self) -> float | None:
        load, self._of_python = self.left.pop(0), self._of_python - 1
        self.python = load or 0.0 if self._of_python >= 0 else 0.0
        return load


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def two_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cores, "allowed", lambda: {0, 1})


def threads(loads: Any, single: int = 2, batch: int = 2) -> tuple[Threads, list[tuple[int, int]], Clock]:
    applied: list[tuple[int, int]] = []
    clock = Clock()
    made = Threads(single, batch, lambda *now: applied.append(now), loads, clock)
    return made, applied, clock


def test_threads_go_and_come_back_with_the_load() -> None:
    made, applied, clock = threads(Loads(None, 0.7, 1.0, 0.0))
    for _ in range(4):
        made.look()
        clock.now += LOOK_EVERY
    assert applied == [(1, 1), (2, 2)]
    assert made.now == (2, 2)


def test_a_core_that_python_took_is_left_to_it_for_a_while() -> None:
    """A burst of requests each second stopped an answer for 0.3 s each time: all threads were back by then."""
    calm = int(HOLD / LOOK_EVERY)
    made, applied, clock = threads(Loads(0.8, *[0.0] * (calm - 1), 0.9, *[0.0] * (2 * calm), python=calm + 1))
    for _ in range(2 * calm):
        made.look()
        clock.now += LOOK_EVERY
        assert made.now == (1, 1)
    made.look()
    assert applied == [(1, 1), (2, 2)]


@each("loads", [(0.4, 0.0), (0.0, 0.0)])
def test_little_work_of_python_takes_no_core(loads: tuple[float, ...]) -> None:
    made, applied, clock = threads(Loads(*loads, python=2))
    for _ in loads:
        made.look()
        clock.now += LOOK_EVERY
    assert applied == []


def test_the_load_is_read_a_few_times_a_second_only() -> None:
    loads = Loads(None, 0.0)
    made, _, clock = threads(loads)
    for _ in range(100):
        made.look()
        clock.now += LOOK_EVERY / 60
    assert loads.left == []


def test_threads_of_prompts_have_a_number_of_their_own() -> None:
    made, applied, clock = threads(Loads(None, 1.0), single=1, batch=2)
    made.look()
    clock.now += LOOK_EVERY
    made.look()
    assert applied == [(1, 1)]


def test_a_single_thread_asks_for_no_load() -> None:
    made, applied, _ = threads(Loads(), single=1, batch=1)
    made.look()
    assert applied == []
