"""A runtime that can be limited is told how much it may take before each way up, as memory stands then."""

from __future__ import annotations

from typing import Any

import pytest
from support.gates import gate_of
from support.memory import FakeResident, World

from edgeserve.device import AllocatorMemory
from edgeserve.engine import Footprint, ModelSpec, Rung
from edgeserve.engines.fake.engine import FakeSpeechToText
from edgeserve.errors import EngineFailure
from edgeserve.memory.governor import Governor, OpenGovernor
from edgeserve.residency.gate import Gate
from edgeserve.system.readings import Accelerator
from edgeserve.units import GB, MB

MAC = 48 << 10


class Metal:
    """Apple's GPU in a Mac of 48 GB whose ``iogpu.wired_limit_mb`` was raised to 46 GB."""

    def read(self) -> Accelerator:
        return Accelerator(recommended=46 * GB, unified=True)

    def clear_cache(self) -> None: ...


class LimitedEngine(FakeSpeechToText):
    """Notes its limits among its steps."""

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self.limits: list[tuple[int, int, int | None]] = []
        self.fails = False

    def limit(self, memory: int, cache: int, wired: int | None) -> None:
        if self.fails:
            raise EngineFailure("the runtime is not installed")
        self.steps.append("limit")
        self.limits.append((memory, cache, wired))


def on_a_mac(
    kind: type[Governor] = Governor, macos: tuple[int, ...] = (15, 1), private: int = 100
) -> tuple[World, Gate, LimitedEngine]:
    world = World(MAC, FakeResident("llm"), kind=kind)
    world.probe.accelerator = Metal()
    world.governor._macos = macos
    engine = LimitedEngine(ModelSpec("asr", "whisper", "", options={"private_mb": private, "mapped_mb": 0}))
    gate = gate_of(engine, world.governor, clock=world.clock)
    world.governor.adopt(gate)
    return world, gate, engine


def test_before_each_way_up_with_what_memory_allows_then() -> None:
    world, gate, engine = on_a_mac()
    world.probe.others = 15 * GB  # the reference's example: min(33.6, 45, 46, 30.0) = 30.0 GB
    gate.preload()
    assert engine.steps[:2] == ["limit", "open"]
    assert engine.limits == [(30 * GB, 30 * GB // 4, 30 * GB)]
    gate.preload()
    assert len(engine.limits) == 1, "it is up"
    gate.step_down(Rung.COLD)
    world.probe.others = 20 * GB
    gate.preload()
    assert [memory for memory, _, _ in engine.limits] == [30 * GB, 25 * GB]


def test_they_are_drawn_once_the_memory_of_others_has_come_back() -> None:
    world, gate, engine = on_a_mac(private=9_000)
    llm = world.residents["llm"]
    llm.says = llm.takes = Footprint(private=26_000 * MB)
    world.heat("llm")
    world.later(60)
    world.probe.others = 15 * GB

    def late() -> None:
        world.probe.late, world.probe.returning = 28_000 * MB, 1_000 * MB

    llm.before_step = late
    gate.preload()
    assert llm.rung is Rung.WARM
    assert world.waits == [0.01, 0.02, 0.04], "the switch gate"
    assert engine.limits[0][0] >= 9_000 * MB - 3 * GB, "not the 2.7 GB that it found at first"


def test_they_are_logged_and_told(caplog: pytest.LogCaptureFixture) -> None:
    world, gate, _ = on_a_mac()
    world.probe.others = 15 * GB
    with caplog.at_level("INFO", logger="edgeserve.memory"):
        gate.preload()
    assert "MLX may take 30.0 GB (adaptive_available), keep 7.5 GB of it and pin 30.0 GB" in caplog.text
    world.probe.accelerator = Loaded()
    told: Any = world.governor.stats()["mlx"]
    assert told == {
        "active_mb": 100.0,
        "cache_mb": 10.0,
        "peak_mb": 200.0,
        "limit_mb": 30 << 10,
        "limit_winner": "adaptive_available",
        "limit_candidates_mb": {
            "fraction_of_total": 34406,
            "total_minus_reserve": 45 << 10,
            "apple_recommended": 46 << 10,
            "adaptive_available": 30 << 10,
        },
        "cache_limit_mb": 7680,
        "wired_limit_mb": 30 << 10,
    }


class Loaded(Metal):
    def read(self) -> Accelerator:
        return Accelerator(mlx=AllocatorMemory(100 * MB, 10 * MB, 200 * MB))


def test_nothing_is_pinned_before_macos_15() -> None:
    _, gate, engine = on_a_mac(macos=(14, 7))
    gate.preload()
    assert engine.limits[0][2] is None


def test_without_a_governor_nothing_is_limited() -> None:
    _, gate, engine = on_a_mac(OpenGovernor)
    gate.preload()
    assert gate.rung is Rung.HOT
    assert engine.limits == []


def test_a_runtime_that_cannot_be_limited_is_not_loaded() -> None:
    world, gate, engine = on_a_mac()
    engine.fails = True
    with pytest.raises(EngineFailure, match="not installed"):
        gate.preload()
    assert gate.rung is Rung.COLD
    assert world.booked() == 0
