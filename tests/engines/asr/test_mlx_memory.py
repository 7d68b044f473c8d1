"""MLX's limits and figures: on the real runtime, and on a module that records."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from support import tiny_whisper
from support.gates import gate_of
from support.memory import World
from support.mlx import needs_mlx

from edgeserve.device import AllocatorMemory
from edgeserve.engine import ModelSpec, Rung
from edgeserve.engine_abilities import Limited
from edgeserve.engines.asr import mlx_memory
from edgeserve.engines.asr.mlx import MlxSpeechToText
from edgeserve.engines.asr.mlx_memory import MlxAllocator, limit
from edgeserve.models.convert import whisper_mlx as conversion
from edgeserve.system.accelerator import DeviceReader


class Recorder:
    """mlx.core of a Mac: notes what it is told, and tells what it was given."""

    def __init__(self, **figures: Any) -> None:
        self.calls: list[tuple[str, *tuple[Any, ...]]] = []
        self.figures = figures
        self.metal = self

    def __getattr__(self, name: str) -> Any:
        def call(*arguments: Any) -> Any:
            self.calls.append((name, *arguments))
            return self.figures.get(name)

        return call


@pytest.fixture
def mac(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorder]:
    told = Recorder(
        get_active_memory=300,
        get_cache_memory=20,
        get_peak_memory=500,
        is_available=True,
        # As it was published of an M4 Pro with 48 GB.
        device_info={"memory_size": 51539607552, "max_recommended_working_set_size": 40200896512},
    )
    monkeypatch.setitem(sys.modules, "mlx", SimpleNamespace(core=told))  # type: ignore[misc]
    monkeypatch.setitem(sys.modules, "mlx.core", told)  # type: ignore[misc]
    mlx_memory.core.cache_clear()
    yield told
    mlx_memory.core.cache_clear()


def test_limits_are_set_and_the_peak_starts_anew(mac: Recorder) -> None:
    limit(100, 25, 50)
    assert [call for call in mac.calls if call[0].startswith(("set", "reset"))] == [
        ("set_memory_limit", 100),
        ("set_cache_limit", 25),
        ("set_wired_limit", 50),
        ("reset_peak_memory",),
    ]


def test_no_more_is_pinned_than_metal_recommends(mac: Recorder) -> None:
    limit(1 << 40, 1 << 30, 1 << 39)
    assert ("set_wired_limit", 40200896512) in mac.calls


def test_nothing_is_pinned_where_the_system_cannot(mac: Recorder) -> None:
    limit(100, 25, None)
    assert "set_wired_limit" not in [name for name, *_ in mac.calls]


def test_nothing_is_asked_of_a_runtime_that_no_engine_has_loaded(mac: Recorder) -> None:
    allocator = MlxAllocator()
    assert allocator.read() is None
    allocator.clear_cache()
    assert mac.calls == []


def test_the_figures_of_a_mac(mac: Recorder) -> None:
    mlx_memory.core()
    allocator = MlxAllocator()
    assert allocator.read() == AllocatorMemory(active=300, cached=20, peak=500, recommended=40200896512)
    mac.figures["is_available"] = False
    assert allocator.read() == AllocatorMemory(active=300, cached=20, peak=500)
    allocator.clear_cache()
    assert mac.calls[-1] == ("clear_cache",)


def test_the_engine_can_be_limited() -> None:
    assert isinstance(MlxSpeechToText(ModelSpec("asr", "", "")), Limited)


PROGRAM = """
import sys
from edgeserve.engines.asr import mlx_memory
allocator = mlx_memory.MlxAllocator()
assert allocator.read() is None and "mlx.core" not in sys.modules
mlx_memory.limit(1 << 30, 1 << 20, 1 << 20)
import mlx.core as mx
assert mx.set_memory_limit(1 << 30) == 1 << 30
assert mx.set_cache_limit(1 << 20) == 1 << 20
array = mx.ones((1 << 20,), mx.float32) + 1
mx.eval(array)
told = allocator.read()
assert 4 << 20 <= told.active <= 9 << 20, told
assert told.peak >= told.active
del array
assert allocator.read().active < 1 << 20, allocator.read()
mlx_memory.limit(1 << 30, 1 << 20, None)
assert allocator.read().peak < told.peak
allocator.clear_cache()
assert allocator.read().cached == 0
"""


@needs_mlx
def test_the_real_runtime_takes_them_and_tells() -> None:
    """In a process of its own: limits hold for all of it."""
    ended = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert ended.returncode == 0, ended.stderr


@pytest.mark.slow
@needs_mlx
def test_an_engine_behind_its_gate_is_loaded_within_its_limits(tmp_path: Path) -> None:
    world = World(16 << 10)
    world.probe.accelerator = DeviceReader(tuple, mlx=MlxAllocator())
    files = conversion.convert(tiny_whisper.build(tmp_path / "checkpoint"), tmp_path / "model")
    engine = MlxSpeechToText(ModelSpec("asr", "tiny", "", files))
    gate = gate_of(engine, world.governor, clock=world.clock)
    world.governor.adopt(gate)
    mx = mlx_memory.core()
    before, held = (mx.set_memory_limit(1 << 40), mx.set_cache_limit(1 << 40)), mx.get_active_memory()
    try:
        gate.preload()
        told: Any = world.governor.stats()["mlx"]
        assert told["limit_winner"] == "fraction_of_total"
        assert mx.set_memory_limit(before[0]) == int(0.7 * (16 << 30))
        assert mx.set_cache_limit(before[1]) == int(0.7 * (16 << 30)) // 4
        assert told["active_mb"] > 0
        gate.step_down(Rung.COLD)
        assert mx.get_active_memory() - held < 50_000  # mlx-whisper keeps a few filters
        assert world.governor.stats()["mlx"]["cache_mb"] == 0.0  # type: ignore[index]
    finally:
        gate.stop()
        mx.set_memory_limit(before[0])
        mx.set_cache_limit(before[1])
