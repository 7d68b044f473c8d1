"""Judged readings: the latest one is judged once, and a situation adds the accounts."""

from __future__ import annotations

from support.memory import POLICY, FakeResident, World, readings

from edgeserve.memory.accounts import Accounts
from edgeserve.memory.gauge import Gauge
from edgeserve.memory.pressure import Level
from edgeserve.units import MB


def test_a_reading_is_judged_by_the_policy() -> None:
    gauge = Gauge(Accounts(POLICY), World(1000).probe)
    found = gauge.judge(readings(1000 * MB, anon=850 * MB))
    assert (found.budget.usable, found.percent, found.level) == (1000 * MB, 85.0, Level.HIGH)


def test_the_latest_reading_is_judged_once() -> None:
    world = World(1000)
    one, other = readings(1000 * MB), readings(1000 * MB)
    gauge = Gauge(Accounts(POLICY), world.probe)
    world.probe.known = lambda: one
    first = gauge.latest()
    assert gauge.latest() is first
    world.probe.known = lambda: other
    assert gauge.latest() is not first


def test_a_situation_includes_the_memory_that_engines_hold() -> None:
    world = World(1000, FakeResident("llm", 100, 20))
    world.heat("llm")
    found = Gauge(world.governor.accounts, world.probe).situation(world.probe.read())
    assert found.booked.host == 120 * MB
    assert found.level is Level.LOW
