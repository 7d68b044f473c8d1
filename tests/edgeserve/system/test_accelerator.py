"""The accelerator's figures from the runtimes, and their place in the reports."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest
from support.cases import each
from support.memory import FakeResident, World

from edgeserve.device import AllocatorMemory, DeviceMemory
from edgeserve.engine import Rung
from edgeserve.jobs import JOBS, Job
from edgeserve.memory.entry import device_mapped
from edgeserve.memory.governor import make_governor
from edgeserve.memory.policy import MemoryPolicy
from edgeserve.system.accelerator import DeviceReader, joined
from edgeserve.system.readings import Accelerator
from edgeserve.units import GB, MB

CARD = DeviceMemory("cuda", 8 * GB, 5 * GB)


@each(
    ("devices", "held", "expected"),
    [
        ((), 9, Accelerator()),
        ((CARD,), 2 * GB, Accelerator("cuda", 8 * GB, 5 * GB, active=2 * GB)),
        # A climbing engine is booked before the device shows its memory.
        ((CARD,), 4 * GB, Accelerator("cuda", 8 * GB, 5 * GB, active=3 * GB)),
        ((CARD, CARD), 2 * GB, Accelerator("cuda", 16 * GB, 10 * GB, active=2 * GB)),
        ((CARD, DeviceMemory("vulkan", 8 * GB, 5 * GB)), 0, Accelerator("cuda", 8 * GB, 5 * GB)),
        (
            (DeviceMemory("metal", 11 * GB, 9 * GB, unified=True),),
            0,
            Accelerator("metal", 11 * GB, 9 * GB, active=2 * GB, recommended=11 * GB, unified=True),
        ),
    ],
)
def test_devices_are_added_up(devices: tuple[DeviceMemory, ...], held: int, expected: Accelerator) -> None:
    assert DeviceReader(lambda: devices, lambda: held).read() == expected


def test_weights_that_metal_uses_where_they_are_mapped_are_not_counted_twice() -> None:
    """Metal's figure includes weights, context and buffers; the accounts book the weights as mapped and droppable."""
    mapped = 5 * GB
    reader = DeviceReader(lambda: [DeviceMemory("metal", 11 * GB, 5 * GB, unified=True)], mapped=lambda: mapped)
    assert reader.read().active == GB
    assert reader.read().free == 5 * GB
    mapped = 7 * GB
    assert reader.read().active == 0


def test_a_hot_model_on_metal_is_booked_once() -> None:
    """Counted twice, a model of 5 GB would take 10 of the 12 GB that engines may take."""
    llm = FakeResident("llm", 5000, 500)
    world = World(12_000, llm, FakeResident("asr", 0, 4000))
    world.probe.accelerator = DeviceReader(
        lambda: [DeviceMemory("metal", 12_000 * MB, 12_000 * MB - used(llm), unified=True)],
        mapped=lambda: device_mapped(world.governor.accounts),
    )
    world.heat("llm")
    world.heat("asr")
    assert llm.rung is Rung.HOT
    world.heat("llm")


def used(llm: FakeResident) -> int:
    """Metal's figure: weights, and the engine's private memory."""
    return 5500 * MB if llm.rung is Rung.HOT else 0


LLAMA_CPP: tuple[Job, ...] = ("llm", "vision")


def test_weights_of_one_file_are_mapped_once_and_only_those_that_a_gpu_may_use() -> None:
    world = World(12_000, *(FakeResident(job, 1000) for job in JOBS))
    for job in JOBS:
        world.heat(job)
    accounts = world.governor.accounts
    assert device_mapped(accounts) == 2000 * MB, "of ONNX Runtime's engines none"
    for job in LLAMA_CPP:
        one = world.residents[job]
        one.spec = dataclasses.replace(one.spec, files={"model": Path("one.gguf")})
    assert device_mapped(accounts) == 1000 * MB
    for job in LLAMA_CPP:
        world.residents[job].spec = dataclasses.replace(world.residents[job].spec, device="cpu")
    assert device_mapped(accounts) == 0


def test_the_reports_show_the_accelerator() -> None:
    governor = make_governor(MemoryPolicy(), devices=lambda: [CARD])
    body = governor.stats()
    assert (body["accelerator"], body["cuda_available"], body["total_mb"], body["free_mb"]) == (
        "cuda",
        True,
        8 << 10,
        5 << 10,
    )
    assert body["budget_usable_mb"] == 5 << 10
    assert governor.defragment() == {"status": "defragmentation_triggered"}


def test_the_reports_name_no_accelerator_on_a_machine_without_one() -> None:
    body = make_governor(MemoryPolicy()).stats()
    assert (body["accelerator"], body["cuda_available"]) == ("none", False)


class Mlx:
    """A stand-in for MLX's allocator."""

    def __init__(self, figures: AllocatorMemory | None) -> None:
        self.figures = figures
        self.cleared = 0

    def read(self) -> AllocatorMemory | None:
        return self.figures

    def clear_cache(self) -> None:
        self.cleared += 1
        if self.figures:
            self.figures = dataclasses.replace(self.figures, cached=0)


ON_METAL = AllocatorMemory(active=2 * GB, cached=GB, peak=3 * GB, recommended=36 * GB)
ON_PROCESSOR = AllocatorMemory(active=2 * GB, cached=0, peak=3 * GB)
LLAMA = Accelerator("metal", 36 * GB, 30 * GB, active=6 * GB, recommended=36 * GB, unified=True)


@pytest.mark.parametrize(
    ("device", "mlx", "figures"),
    [
        # Metal reports the memory of the whole process to llama.cpp: 3 of the 6 GB are MLX's.
        (LLAMA, ON_METAL, ("metal", 36 * GB, 30 * GB, 5 * GB, GB, 36 * GB)),
        # MLX alone: llama.cpp is not loaded, or was built for the processor.
        (Accelerator(), ON_METAL, ("metal", 36 * GB, 33 * GB, 2 * GB, GB, 36 * GB)),
        # Even if Metal reported llama.cpp's own memory only, MLX's would still be counted.
        (
            dataclasses.replace(LLAMA, free=35 * GB, active=GB),
            ON_METAL,
            ("metal", 36 * GB, 33 * GB, 2 * GB, GB, 36 * GB),
        ),
    ],
)
def test_the_gpu_that_two_runtimes_use_is_counted_once(
    device: Accelerator, mlx: AllocatorMemory, figures: tuple[object, ...]
) -> None:
    found = joined(device, mlx)
    assert (found.name, found.total, found.free, found.active, found.cached, found.recommended) == figures
    assert found.unified
    assert found.mlx is mlx


@pytest.mark.parametrize("device", [Accelerator(), Accelerator("cuda", 8 * GB, 5 * GB, active=2 * GB)])
def test_mlx_on_the_processor_takes_no_memory_of_a_gpu(device: Accelerator) -> None:
    assert joined(device, ON_PROCESSOR) == dataclasses.replace(device, mlx=ON_PROCESSOR)


def test_mlx_is_not_reported_before_it_is_loaded() -> None:
    mlx = Mlx(None)
    governor = make_governor(MemoryPolicy(), allocator=mlx)
    assert governor.stats()["mlx"] is None
    governor.defragment()
    assert governor.stats()["mlx"] is None


def test_the_reports_show_mlx_and_defragment_clears_its_cache() -> None:
    mlx = Mlx(ON_METAL)
    governor = make_governor(MemoryPolicy(), allocator=mlx)
    body = governor.stats()["mlx"]
    assert isinstance(body, dict)
    assert (body["active_mb"], body["cache_mb"], body["peak_mb"]) == (2048, 1024, 3072)
    assert (body["limit_mb"], body["limit_winner"], body["wired_limit_mb"]) == (None, None, None)
    split = governor.fragmentation()
    assert (split["allocated_mb"], split["reserved_mb"], split["fragmentation_mb"]) == (2048, 3072, 1024)
    assert split["fragmentation_percent"] == 33.3
    governor.defragment()
    assert mlx.cleared == 1
    assert governor.fragmentation()["fragmentation_mb"] == 0
