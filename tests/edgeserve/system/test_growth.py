"""Growth of a process: exact unless other work ran meanwhile."""

from __future__ import annotations

import contextlib

from hypothesis import given
from hypothesis import strategies as st

from edgeserve.system.growth import Grown, Growth, Others


@given(st.lists(st.sampled_from(["begin", "end", "measure", "look"]), max_size=30))
def test_exact_is_what_no_other_work_ran_beside(acts: list[str]) -> None:
    others, stack = Others(), list[contextlib.ExitStack]()
    growth, beside = Growth(lambda: 7, others), False
    for act in acts:
        if act == "begin":
            stack.append(contextlib.ExitStack())
            stack[-1].enter_context(others.work())
            beside = True
        elif act == "end" and stack:
            stack.pop().close()
        elif act == "measure":
            growth, beside = Growth(lambda: 7, others), bool(stack)
        assert growth.end() == Grown(0, not beside)


def test_the_growth_is_never_negative_and_adds_up() -> None:
    readings = iter([100, 140, 140, 90])
    first, second = (Growth(lambda: next(readings), Others()).end() for _ in range(2))
    assert (first, second) == (Grown(40), Grown(0))
    assert first + Grown(2, exact=False) == Grown(42, exact=False)


def test_work_that_fails_has_ended() -> None:
    others = Others()
    with contextlib.suppress(ValueError), others.work():
        raise ValueError
    assert others.mark() is not None
