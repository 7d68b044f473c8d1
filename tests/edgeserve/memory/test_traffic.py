"""Bytes of requests: those held now, and those that were here since a moment."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from edgeserve.memory.traffic import Traffic


@given(st.lists(st.integers(0, 100)), st.lists(st.integers(0, 100)))
def test_all_that_was_here_since_a_moment_counts(before: list[int], after: list[int]) -> None:
    traffic = Traffic()
    traffic.come(sum(before))
    traffic.go(sum(before) // 2)
    gone, held = traffic.gone, traffic.held
    assert held == sum(before) - sum(before) // 2
    traffic.come(sum(after))
    assert traffic.since(gone) == held + sum(after)
    traffic.gone = traffic.came
    assert (traffic.held, traffic.since(gone)) == (0, held + sum(after))
