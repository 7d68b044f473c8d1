"""Every move of an engine is counted once, with its reason, whoever makes it."""

from __future__ import annotations

from typing import Any

from support.memory import FakeResident, World

from edgeserve.engine import Rung
from edgeserve.units import MB


def moves(world: World) -> dict[tuple[str, ...], float]:
    """Counts by engine, rung before, rung after and reason."""
    return {(job, *rest): count for (job, _, *rest), count in world.governor.figures.counters["transitions_total"]}


def bytes_of(world: World, name: str) -> dict[Any, float]:
    return {job: size for (job, _), size in world.governor.figures.counters[name]}


def test_a_way_up_and_an_eviction_for_another_engine() -> None:
    world = World(200, FakeResident("llm", 0, 100), FakeResident("asr", 0, 110))
    world.heat("llm")
    world.clock.now += 1000
    world.heat("asr")
    assert moves(world) == {
        ("llm", "cold", "hot", "load"): 1,
        ("llm", "hot", "warm", "memory_needed"): 1,
        ("asr", "cold", "hot", "load"): 1,
    }
    assert bytes_of(world, "reclaimed_bytes_total") == {"llm": 100 * MB}
    assert bytes_of(world, "reclaim_expected_bytes_total") == {"llm": 100 * MB}


def test_a_request_to_a_hot_engine_is_no_move() -> None:
    world = World(200, FakeResident("llm", 0, 100))
    for _ in range(3):
        world.heat("llm")
    assert moves(world) == {("llm", "cold", "hot", "load"): 1}


def test_a_move_by_hand_tells_so_and_one_that_is_refused_is_none() -> None:
    world = World(200, FakeResident("llm", 0, 100))
    resident: Any = world.heat("llm")
    resident.leases = 1
    assert world.governor.step_down(resident, Rung.WARM, "requested") is None
    resident.leases = 0
    assert world.governor.step_down(resident, Rung.WARM, "requested") is not None
    assert moves(world) == {("llm", "cold", "hot", "load"): 1, ("llm", "hot", "warm", "requested"): 1}


def test_moves_beside_the_governor_are_noticed() -> None:
    world = World(200, FakeResident("llm", 0, 100))
    resident = world.residents["llm"]
    resident.rung = Rung.WARM
    world.governor.accounts.observe()
    world.governor.accounts.observe()
    world.heat("llm")
    resident.rung = Rung.COLD
    world.governor.accounts.observe()
    assert moves(world) == {
        ("llm", "cold", "warm", "mapped"): 1,
        ("llm", "warm", "hot", "load"): 1,
        ("llm", "hot", "cold", "closed"): 1,
    }
    assert bytes_of(world, "reclaimed_bytes_total") == {}
