"""Samples: the figures of a moment by model, and happenings noted where they happen."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest
from support.cases import each
from support.memory import FakeResident, ThriftyResident, World, world_at

from edgeserve.engine import Rung
from edgeserve.errors import DoesNotFit, MemoryPressure
from edgeserve.memory.sampler import shares
from edgeserve.memory.timeline import Held, Point
from edgeserve.units import MB


def sampled(world: World) -> Point:
    world.governor.sampler.sample()
    timeline = world.governor.timeline
    return timeline.read(timeline.place(0), 1)[0]


def happened(world: World) -> list[dict[str, Any]]:
    timeline = world.governor.timeline
    found = timeline.happenings(timeline.place(1000))
    return [{"kind": one.kind, "model": one.model, **one.details} for one in found]


def test_a_sample_has_the_machine_and_each_model() -> None:
    world = World(1000, FakeResident("llm", 100, 20, 5), FakeResident("asr", 30, 10))
    world.heat("llm")
    point = sampled(world)
    assert point.sample._asdict() == {
        "pressure": 0,
        "percent": 2,
        "private": 20,
        "mapped": 100,
        "budget": 1000,
        "available": 980,
        "total": 1000,
    }
    assert point.models == {"llm": Held(Rung.HOT, 20, 100, 0, 1), "asr": Held(Rung.COLD, 0, 0, 0, 0)}


def test_memory_that_is_booked_and_not_taken_yet_is_not_shown() -> None:
    world = World(1000, FakeResident("llm", 0, 300), FakeResident("asr", 0, 30, 5))
    world.probe.base = 40 * MB
    world.heat("asr")
    with world.governor.reserve(world.residents["llm"]):  # on its way up, and none of it taken
        point = sampled(world)
        assert point.sample.private == 70
        assert {name: one and one.private for name, one in point.models.items()} == {"llm": 0, "asr": 30}


@each(
    ("parts", "room", "wanted"),
    [
        ([(10, 10), (20, 25)], 100, [10, 25]),
        ([(10, 10), (0, 90)], 40, [10, 30]),
        ([(10, 50), (0, 80)], 40, [20, 20]),
        ([(30, 90), (10, 10)], 20, [15, 5]),
        ([(30, 90)], 0, [0]),
        ([], 50, []),
    ],
)
def test_the_parts_are_never_more_than_the_whole(parts: list[tuple[int, int]], room: int, wanted: list[int]) -> None:
    assert shares(parts, room) == wanted


def test_a_card_of_its_own_counts_in_the_whole_and_in_its_part() -> None:
    world = World(1000, FakeResident("llm", 0, 20))
    llm = world.heat("llm")
    entry = world.governor.accounts[llm.id]
    assert entry.hot
    entry.hot = dataclasses.replace(entry.hot, device=500 * MB)
    point = sampled(world)
    found = point.models["llm"]
    assert found
    assert (point.sample.private, found.private) == (520, 520)


def test_a_file_that_two_models_map_is_shown_once() -> None:
    chat, vision = FakeResident("llm", 100, 20), FakeResident("vision", 100, 30)
    for one in (chat, vision):
        one.spec = dataclasses.replace(one.spec, files={"model": Path("/one.gguf")})
    world = World(1000, chat, vision)
    world.heat("llm")
    world.heat("vision")
    found = sampled(world).models
    assert {name: one and one.mapped for name, one in found.items()} == {"llm": 100, "vision": 0}


def test_a_sample_reads_no_memory_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(1000, FakeResident("llm", 100, 20))
    last = world.probe.read()
    world.probe.known = lambda: last
    monkeypatch.setattr(world.residents["llm"], "footprint", lambda: pytest.fail("an engine is asked"))
    before = world.probe.reads
    sampled(world)
    assert world.probe.reads == before


def test_a_level_of_pressure_that_changes_is_noted_once() -> None:
    world = world_at(85, FakeResident("llm", 0, 10))
    sampled(world)
    sampled(world)
    (found,) = (one for one in happened(world) if one["kind"] == "pressure")
    assert found == {"kind": "pressure", "model": "", "before": "LOW", "after": "HIGH", "percent": 85}


def test_steps_up_and_down_are_noted_with_their_bytes() -> None:
    world = World(1000, FakeResident("llm", 100, 20))
    llm = world.heat("llm")
    world.governor.step_down(llm, Rung.COLD, "requested")
    up, down = happened(world)
    assert up == {
        "kind": "step_up",
        "model": "llm",
        "before": "cold",
        "after": "hot",
        "seconds": 0.0,
        "expected_mb": 120.0,
        "taken_mb": 120.0,
    }
    assert down == {
        "kind": "step_down",
        "model": "llm",
        "reason": "requested",
        "before": "hot",
        "after": "cold",
        "expected_mb": 120.0,
        "freed_mb": 120.0,
        "exact": True,
    }


def test_a_refusal_is_noted_with_its_words() -> None:
    world = World(100, FakeResident("llm", 0, 900))
    with pytest.raises(DoesNotFit) as caught:
        world.governor.reserve(world.residents["llm"])
    assert happened(world) == [
        {"kind": "refusal", "model": "llm", "needed_mb": 900.0, "why": caught.value.message},
    ]


def test_savings_deaths_and_stopped_answers_are_noted() -> None:
    world = world_at(95, ThriftyResident("llm", 0, 10, cached=4, rung=Rung.HOT))
    world.governor.ended(world.residents["llm"].spec, -9)
    world.governor.drop_prefix_cache(world.residents["llm"])
    with pytest.raises(MemoryPressure):
        world.governor.check()
    kinds = {one["kind"]: one for one in happened(world)}
    assert kinds["worker_ended"] == {"kind": "worker_ended", "model": "llm", "code": -9}
    assert kinds["answer_stopped"]["percent"] >= 95
    assert kinds["saving"] == {"kind": "saving", "model": "llm", "what": "prefix_cache", "saved_mb": 4.0}


def test_the_governor_takes_a_sample_after_each_reading() -> None:
    world = World(1000)
    world.governor.start()
    world.governor.stop()
    assert world.probe.then == world.governor.sampler.sample
