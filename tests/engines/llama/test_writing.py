"""The bound on bytes written."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as some
from support.examples import examples

from edgeserve.engines.llama.writing import REFILL_SECONDS, RESERVE, Allowance


def test_it_refuses_more_than_its_burst_and_fills_up_again() -> None:
    now = 0.0
    one = Allowance(100, clock=lambda: now)
    assert one.take(25, "a")
    assert one.take(50, "b")
    assert not one.take(26, "c")
    assert one.take(25, "c")
    assert not one.take(1, "d")
    now = REFILL_SECONDS / 2
    assert not one.take(51, "d")
    assert one.take(25, "d")
    assert one.take(25, "e")
    assert not one.take(1, "f")
    now += REFILL_SECONDS * 10
    assert not one.take(101, "a")
    assert one.take(75, "a")
    assert not one.take(1, "a")


def test_it_spares_what_can_wait_while_half_is_left() -> None:
    now = 0.0
    one = Allowance(100, clock=lambda: now)
    assert one.spares(50)
    assert not one.spares(51)
    assert one.take(50, "a")
    assert not one.spares(1)
    now = REFILL_SECONDS / 4
    assert [one.spares(25), one.spares(26)] == [True, False]
    assert one.take(25, "b"), "asking counts nothing"


def test_one_client_alone_leaves_the_reserve_and_has_all_that_comes_after() -> None:
    now = 0.0
    one = Allowance(100, clock=lambda: now)
    assert one.take(75)
    assert not one.take(1)
    for _ in range(10):
        now += REFILL_SECONDS / 10
        assert one.take(10)
        assert not one.take(1)


@examples(60)
@given(
    some.lists(
        some.tuples(some.integers(0, 3), some.integers(1, 400), some.floats(0, REFILL_SECONDS / 4)), max_size=60
    ),
    some.integers(1, int(RESERVE * 1000)),
)
def test_a_client_that_takes_many_leaves_others_room(floods: list[tuple[int, int, float]], size: int) -> None:
    """A client with new conversations all day ended the writing of everybody's, which a restart then lost."""
    now = 0.0
    one = Allowance(1000, clock=lambda: now)
    for _, taken, passes in floods:
        now += passes
        one.take(taken, "floods")
    assert one.take(size, "mine")
