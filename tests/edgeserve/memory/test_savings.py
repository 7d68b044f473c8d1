"""Savings before eviction: prefix caches, and a smaller context."""

from __future__ import annotations

import pytest
from support.memory import FakeResident, ThriftyResident, World

from edgeserve.engine import Rung
from edgeserve.units import MB


def test_a_prefix_cache_goes_before_any_engine_is_evicted() -> None:
    llm = ThriftyResident("llm", 0, 300)
    world = World(1000, llm, FakeResident("asr", 500, 100))
    world.heat("llm").cached = 200 * MB
    assert world.booked() == 500 * MB
    world.later(60)
    world.heat("asr")
    assert llm.shed_kinds == ["prefix_cache"]
    assert llm.rung is Rung.HOT
    assert llm.cached == 100 * MB, "no more than what is missing"
    assert world.booked() == 1000 * MB
    assert world.governor.evictions() == []


def test_the_context_shrinks_before_any_engine_is_evicted() -> None:
    llm = ThriftyResident("llm", 0, 700, context=300)
    world = World(1000, llm, FakeResident("asr", 400, 100))
    world.heat("asr")
    world.later(60)
    world.heat("llm")
    assert llm.shed_kinds == ["context"]
    assert world.residents["asr"].rung is Rung.HOT
    assert world.booked() <= 1000 * MB
    assert llm.takes.private == pytest.approx(500 * MB, rel=0.01), "no smaller than it must be"


def test_a_shrunk_context_is_restored_on_the_next_way_up_and_not_learned() -> None:
    llm = ThriftyResident("llm", 0, 700, context=300)
    world = World(1000, llm, FakeResident("asr", 400, 100))
    world.heat("asr")
    world.later(60)
    world.heat("llm")
    assert world.peaks.find(llm.spec) is None
    world.later(60)
    for job in ("llm", "asr"):
        world.governor.step_down(world.residents[job], Rung.COLD, "requested")
    world.heat("llm")
    assert llm.takes.private == 700 * MB
    assert world.booked() == 700 * MB
    learned = world.peaks.find(llm.spec)
    assert learned is not None
    assert learned.private == 700 * MB


def test_savings_that_are_not_enough_are_followed_by_eviction() -> None:
    llm = ThriftyResident("llm", 0, 800, context=100)
    world = World(1000, llm, FakeResident("asr", 400, 100))
    world.heat("asr")
    world.later(60)
    world.heat("llm")
    assert llm.shed_kinds == ["context"]
    assert world.residents["asr"].rung is Rung.WARM


def test_a_step_down_that_keeps_a_cache_expects_the_rest_back() -> None:
    llm = ThriftyResident("llm", 0, 300)
    world = World(1000, llm)
    world.heat("llm")
    llm.saves = 20 * MB
    world.later(60)
    record = world.governor.step_down(llm, Rung.WARM, "idle")
    assert record is not None
    assert record.expected == record.freed == 280 * MB
    assert world.booked() == 20 * MB
