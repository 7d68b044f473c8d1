from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from support.contract import ask
from support.gates import Held, Mailbox, engine_of
from support.memory import FakeResident, World
from support.server import considerate_governor, fake_pool, until

from edgeserve.api.metrics.readings import memory_of, readings
from edgeserve.engine import Rung
from edgeserve.figures.families import READ
from edgeserve.residency.pool import Pool
from edgeserve.units import MB

MODEL = ("llm", "llm")


def read(pool: Pool, name: str) -> Any:
    return dict(readings(pool)[name])


def test_running_and_waiting_requests() -> None:
    pool = fake_pool(["llm"])
    gate = pool.gates["llm"]
    gate.preload()
    held = Held(engine_of(gate))
    boxes = [Mailbox() for _ in range(3)]
    try:
        for box in boxes:
            gate.acquire()
            gate.submit(box.work(ask("word")))
        assert held.entered.wait(10)
        until(lambda: read(pool, "requests_running") == {MODEL: 1})
        assert read(pool, "requests_waiting") == {MODEL: 2}
        held.go.set()
        for box in boxes:
            box.rest()
            gate.release()
        assert read(pool, "requests_running") == read(pool, "requests_waiting") == {MODEL: 0}
    finally:
        held.go.set()
        gate.stop()


def test_memory_by_kind_adds_up_to_what_the_engine_holds() -> None:
    pool = fake_pool(["llm"], governor=considerate_governor(), prefix_cache_mb=2)
    gate = pool.gates["llm"]
    try:
        gate.preload()
        box = Mailbox()
        gate.acquire()
        gate.submit(box.work(ask("word")))
        box.rest()
        gate.release()
        until(lambda: read(pool, "engine_memory_bytes")[(*MODEL, "prefix_cache")] == 2 * MB)
        held = pool.governor.accounts["llm"].held
        found = read(pool, "engine_memory_bytes")
        assert found[(*MODEL, "private")] + found[(*MODEL, "prefix_cache")] == held.private
        assert found[(*MODEL, "mapped")] == held.mapped
        assert read(pool, "engine_rung") == {MODEL: Rung.HOT}
    finally:
        gate.stop()


def test_every_family_that_is_read_is_read() -> None:
    pool = fake_pool(["llm"])
    assert {*readings(pool), "build_info"} == set(READ)
    assert read(pool, "engine_rung") == {MODEL: Rung.COLD}
    assert read(pool, "model_info") == {(*MODEL, "fake-llm"): 1}


def test_a_model_that_is_served_no_more_is_gone() -> None:
    pool = fake_pool(["llm", "tts"])
    pool.gates = {"tts": pool.gates["tts"]}
    assert read(pool, "engine_rung") == {("tts", "tts"): Rung.COLD}


def test_a_file_that_two_models_map_is_shown_once(tmp_path: Path) -> None:
    weights = tmp_path / "weights"
    weights.write_bytes(bytes(100))
    world = World(1000, FakeResident("llm", 50, 10), FakeResident("vision", 50, 10))
    residents: list[Any] = list(world.residents.values())
    for one in residents:
        one.spec = dataclasses.replace(one.spec, files={"model": weights})
        world.heat(one.id)
    shown: set[str] = set()
    found = [dict(memory_of(one, world.governor.accounts[one.id], shown)) for one in residents]
    assert [one[job, job, "mapped"] for one, job in zip(found, ("llm", "vision"), strict=True)] == [50 * MB, 0]
    assert [one[job, job, "private"] for one, job in zip(found, ("llm", "vision"), strict=True)] == [10 * MB] * 2


def test_a_cold_engine_is_not_asked() -> None:
    world = World(1000, FakeResident("llm", 50, 10))
    resident: Any = world.residents["llm"]

    def savings() -> dict[str, int]:
        raise AssertionError("it may read the disk for that")

    resident.savings = savings
    assert {size for _, size in memory_of(resident, world.governor.accounts["llm"], set())} == {0}
