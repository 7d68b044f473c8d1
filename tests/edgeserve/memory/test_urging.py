"""Slow readers and senders make way for a request that waits for their bytes alone."""

from __future__ import annotations

import pytest
from support.memory import FakeResident, World

from edgeserve.engine import Rung
from edgeserve.errors import Busy
from edgeserve.memory.urging import GAP, PATIENCE
from edgeserve.units import MB


def passing(bodies: int, unread: int) -> World:
    """A world in which asr waits for bytes that pass."""
    world = World(300, FakeResident("llm", 0, 190, pinned=True), FakeResident("asr", 0, 10, 60))
    world.heat("llm")
    world.governor.accounts.traffic.came, world.undelivered = bodies * MB, unread * MB
    world.probe.base = (bodies + unread) * MB
    return world


def test_slow_bodies_are_refused_one_by_one_until_a_request_fits() -> None:
    """It waited until they had come, or was refused with 503 after 30 s without an answer under way."""
    world, eased, asked = passing(64, 0), list[float](), list[int]()

    def ease(missing: int) -> None:
        eased.append(world.clock.now)
        asked.append(missing)
        world.governor.accounts.traffic.go(20 * MB)
        world.probe.base -= 20 * MB

    world.governor.accounts.traffic.ease = ease
    assert world.heat("asr").rung is Rung.HOT
    assert eased == [pytest.approx(1000 + PATIENCE + number * GAP, abs=0.6) for number in range(len(eased))]
    assert len(eased) == 3, "no more than it needs"
    assert [one - asked[-1] for one in asked] == [40 * MB, 20 * MB, 0], "as many as are missing then"


def test_unread_answers_are_cut_of_all_engines() -> None:
    world = passing(0, 60)

    def on_wait() -> None:
        if world.residents["llm"].cut:
            world.undelivered = world.probe.base = 0

    world.on_wait = on_wait
    assert world.heat("asr").rung is Rung.HOT
    assert world.clock.now == pytest.approx(1000 + PATIENCE, abs=0.6)


def test_nobody_is_cut_where_that_does_not_help() -> None:
    """An engine is in the way, and what passes would leave room."""
    world = World(1000, FakeResident("llm", 600, 20), FakeResident("asr", 0, 500))
    world.heat("asr").refuses = True
    world.governor.accounts.traffic.came = world.probe.base = 20 * MB
    eased = list[bool]()
    world.governor.accounts.traffic.ease = lambda missing: eased.append(True)
    with pytest.raises(Busy):
        world.heat("llm")
    assert not eased
    assert not any(one.cut for one in world.residents.values())


def test_a_refused_body_wakes_who_waits() -> None:
    world = passing(60, 0)
    accounts = world.governor.accounts

    def ease(missing: int) -> None:
        before = accounts.stirred
        accounts.traffic.go(60 * MB)
        world.probe.base = 0
        accounts.traffic.eased()
        assert accounts.stirred == before + 1

    accounts.traffic.ease = ease
    world.heat("asr")
    assert world.clock.now == pytest.approx(1000 + PATIENCE, abs=0.01), "at once"
