"""The bound on bytes written."""

from __future__ import annotations

from edgeserve.engines.llama.writing import REFILL_SECONDS, Allowance


def test_it_refuses_more_than_its_burst_and_fills_up_again() -> None:
    now = 0.0
    one = Allowance(100, clock=lambda: now)
    assert one.take(60)
    assert not one.take(50)
    assert one.take(40)
    now = REFILL_SECONDS / 2
    assert not one.take(51)
    assert one.take(50)
    now += REFILL_SECONDS * 10
    assert one.take(100)
    assert not one.take(1)
