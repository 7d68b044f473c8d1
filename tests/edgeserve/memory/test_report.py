"""Bodies of the memory routes: the fields that docs/api/memory.md lists."""

from __future__ import annotations

from typing import Any

import pytest
from support.memory import FakeResident, World, world_at

from edgeserve.engine import Footprint, Rung
from edgeserve.engine_abilities import RemotePart
from edgeserve.system.readings import Accelerator
from edgeserve.units import GB, MB

STATS = {
    *("cuda_available", "total_mb", "free_mb", "used_mb", "used_percent", "allocated_mb"),
    *("budget_total_mb", "budget_usable_mb", "cpu_budget_total_mb", "cpu_budget_usable_mb", "cpu_used_mb"),
    *("models_loaded", "models_offloaded", "pressure_level"),
    *("total_evictions", "total_offloads", "total_restorations", "total_unloads"),
}


def test_stats() -> None:
    world = World(1000, FakeResident("llm", 300, 100, warm=20), FakeResident("asr", 0, 50))
    world.heat("llm")
    world.heat("asr")
    world.governor.step_down(world.residents["llm"], Rung.WARM, "idle")
    world.heat("llm")
    world.governor.step_down(world.residents["llm"], Rung.WARM, "idle")
    world.governor.step_down(world.residents["asr"], Rung.COLD, "idle")
    body = world.governor.stats()
    assert set(body) >= STATS
    assert {"accelerator", "pss_anon_mb", "pss_file_mb", "budget_winner"} <= set(body)
    expected = {
        "cuda_available": False,
        "accelerator": "none",
        "total_mb": 1000,
        "free_mb": 980,
        "used_mb": 20,
        "used_percent": 2.0,
        "allocated_mb": 20,
        "budget_total_mb": 1000,
        "budget_usable_mb": 1000,
        "budget_winner": "fraction_of_total",
        "cpu_budget_total_mb": 1000,
        "cpu_budget_usable_mb": 500,
        "cpu_used_mb": 20,
        "models_loaded": 0,
        "models_offloaded": 1,
        "pressure_level": "LOW",
        "total_evictions": 3,
        "total_offloads": 2,
        "total_restorations": 1,
        "total_unloads": 1,
        "pss_anon_mb": 20.0,
        "pss_file_mb": 0.0,
    }
    assert {name: body[name] for name in expected} == expected


class Card:
    def __init__(self, **figures: Any) -> None:
        self.figures = figures
        self.cleared = 0

    def read(self) -> Accelerator:
        return Accelerator(**self.figures)

    def clear_cache(self) -> None:
        self.cleared += 1


def test_the_stats_show_an_accelerator_of_its_own_memory() -> None:
    world = World(1000, FakeResident("llm", 10, 10))
    world.residents["llm"].says = world.residents["llm"].takes = Footprint(device=2 * GB)
    world.probe.accelerator = Card(name="cuda", total=24 * GB, free=18 * GB, active=5 * GB, cached=GB)
    world.heat("llm")
    body = world.governor.stats()
    assert (body["cuda_available"], body["accelerator"]) == (True, "cuda")
    assert (body["total_mb"], body["free_mb"], body["used_mb"], body["used_percent"]) == (24576, 18432, 6144, 25.0)
    assert body["allocated_mb"] == 2048
    assert world.governor.models()[0]["location"] == "gpu"
    broken_up = world.governor.fragmentation()
    assert (broken_up["allocated_mb"], broken_up["reserved_mb"], broken_up["fragmentation_mb"]) == (5120, 6144, 1024)
    assert broken_up["fragmentation_percent"] == 16.7
    world.governor.defragment()
    assert world.probe.accelerator.cleared == 1


def test_models() -> None:
    world = World(1000, FakeResident("llm", 300, 100), FakeResident("asr", 0, 50))
    world.heat("llm")
    world.heat("llm")
    world.later(45.2)
    llm, asr = world.governor.models()
    reference = {"model_name", "model_type", "quantization", "location", "memory_mb", "idle_seconds", "use_count"}
    assert reference <= set(llm)
    assert (llm["model_type"], llm["location"], llm["memory_mb"], llm["idle_seconds"], llm["use_count"]) == (
        "llm",
        "cpu",
        400.0,
        45.2,
        2,
    )
    assert (asr["location"], asr["rung"], asr["memory_mb"]) == ("disk", "cold", 0.0)


class SpreadResident(FakeResident):
    """A model with a part on another machine."""

    remote_parts = (RemotePart("box2:50052", 12, 700 * MB),)


def test_parts_on_other_machines_are_listed_and_count_nowhere_else() -> None:
    world = World(1000, SpreadResident("llm", 300, 100), FakeResident("asr", 0, 50))
    before = world.governor.stats()["allocated_mb"]
    part = {"node": "box2:50052", "model_name": "fake-llm", "layers": 12, "memory_mb": 700}
    assert world.governor.stats()["nodes"] == [part]
    assert [one["nodes"] for one in world.governor.models()] == [[part], []]
    world.heat("llm")
    assert world.governor.stats()["allocated_mb"] == 400
    assert before == 0


def test_a_split_model_has_the_room_that_idle_models_leave() -> None:
    world = World(1000, FakeResident("llm", 0, 10), FakeResident("asr", 0, 50), FakeResident("tts", 0, 70))
    world.heat("asr")
    world.heat("tts")
    free = world.governor.room(world.residents["llm"].spec)
    world.residents["tts"].pinned = True
    assert free - world.governor.room(world.residents["llm"].spec) == 70 * MB


def test_the_room_of_a_split_model_is_not_refused_to_it() -> None:
    """The plan of a split takes all of the room, and private bytes stay below CRITICAL."""
    free = World(1000, FakeResident("llm", 0, 10)).governor.room(FakeResident("llm", 0, 10).spec)
    assert free > 0
    world = World(1000, FakeResident("llm", 0, free // MB))
    world.heat("llm")
    assert world.governor.stats()["allocated_mb"] == free // MB


def test_offloaded() -> None:
    world = World(1000, FakeResident("llm", 300, 100), FakeResident("asr", 0, 50))
    world.heat("asr")
    world.governor.step_down(world.heat("llm"), Rung.WARM, "idle")
    at = world.governor.evictions()[0]["timestamp"]
    world.later(45.2)
    assert world.governor.offloaded() == [
        {
            "model_key": "llm:fake-llm:default",
            "original_device": "auto",
            "offload_time": at,
            "seconds_offloaded": 45.2,
        }
    ]


@pytest.mark.parametrize(
    ("percent", "level", "healthy"),
    [(25, "LOW", True), (60, "MODERATE", True), (85, "HIGH", True), (95, "CRITICAL", False)],
)
def test_health(percent: int, level: str, healthy: bool) -> None:
    body = world_at(percent).governor.health()
    assert set(body) == {"healthy", "pressure", "used_percent", "message"}
    assert (body["healthy"], body["pressure"], body["used_percent"]) == (healthy, level, float(percent))
    assert percent != 25 or body["message"] == "Memory usage normal"


def test_fragmentation_and_defragment() -> None:
    world = World(1000)
    reference = {"cuda_available", "allocated_mb", "reserved_mb", "fragmentation_mb", "fragmentation_percent"}
    assert reference | {"num_alloc_retries", "num_ooms"} <= set(world.governor.fragmentation())
    assert world.governor.defragment() == {"status": "defragmentation_triggered"}
    assert world.trims == 1


def test_a_client_collects_garbage_at_most_once_a_second() -> None:
    """No other Python code runs meanwhile."""
    world = World(1000)
    for _ in range(50):
        assert world.governor.defragment_by_hand() == {"status": "defragmentation_triggered"}
    assert world.trims == 1
    world.later(1)
    world.governor.defragment_by_hand()
    assert world.trims == 2
