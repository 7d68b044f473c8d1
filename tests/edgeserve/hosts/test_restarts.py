"""The pause before a worker that keeps dying is started again."""

from __future__ import annotations

import pytest
from support.gates import Clock

from edgeserve.errors import Restarting
from edgeserve.hosts.restarts import FREE, LONGEST, SPAN, Restarts


def test_a_few_deaths_cause_no_pause() -> None:
    one = Restarts("chat", Clock())
    for _ in range(FREE - 1):
        one.note()
        assert one.left() == 0
        one.check()
    assert one.total == FREE - 1


def test_pauses_double_up_to_a_minute() -> None:
    clock = Clock()
    one = Restarts("chat", clock)
    for _ in range(FREE - 1):
        one.note()
    pauses = []
    for _ in range(8):
        one.note()
        pauses.append(one.left())
        clock.now += min(one.left(), 10.0)  # the next death comes within the time that counts
    assert pauses == [1, 2, 4, 8, 16, 32, LONGEST, LONGEST]


def test_who_asks_too_early_is_told_when_to_come_back() -> None:
    clock = Clock()
    one = Restarts("chat", clock)
    for _ in range(FREE + 2):
        one.note()
    with pytest.raises(Restarting, match=r"chat has ended 5 times .* started again in 4 s") as raised:
        one.check()
    assert raised.value.retry_after == 4
    clock.now += 4
    one.check()


def test_a_quiet_minute_is_a_new_beginning() -> None:
    clock = Clock()
    one = Restarts("chat", clock)
    for _ in range(FREE + 3):
        one.note()
    clock.now += SPAN + one.left() + 1
    one.note()
    assert one.left() == 0
    for _ in range(FREE - 1):
        one.note()
    assert one.left() == 1
