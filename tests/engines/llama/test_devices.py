"""Accelerators as llama.cpp tells them: of a made-up library, and of the real one on this machine."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import psutil
import pytest

from edgeserve.device import DeviceMemory
from edgeserve.engines.llama import devices as llama_devices
from edgeserve.engines.llama.runtime import llama

GB = 1 << 30


class Library:
    """ggml with these devices: (type, name, total, free)."""

    def __init__(self, *devices: tuple[int, bytes, int, int]) -> None:
        self.devices = devices

    def ggml_backend_dev_count(self) -> int:
        return len(self.devices)

    def ggml_backend_dev_get(self, index: int) -> int:
        return index

    def ggml_backend_dev_type(self, device: int) -> int:
        return self.devices[device][0]

    def ggml_backend_dev_name(self, device: int) -> bytes:
        return self.devices[device][1]

    def ggml_backend_dev_memory(self, device: int, free: Any, total: Any) -> None:
        _, _, total._obj.value, free._obj.value = self.devices[device]


@pytest.fixture
def loaded(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    llama()
    monkeypatch.setattr(llama_devices, "_is_tegra", lambda: False)
    return monkeypatch


@pytest.mark.parametrize(
    ("device", "told"),
    [
        ((0, b"CPU", 16 * GB, 9 * GB), ()),
        ((3, b"BLAS", 0, 0), ()),
        ((1, b"CUDA0", 8 * GB, 5 * GB), (DeviceMemory("cuda", 8 * GB, 5 * GB),)),
        ((1, b"Vulkan12", 8 * GB, 5 * GB), (DeviceMemory("vulkan", 8 * GB, 5 * GB),)),
        ((2, b"Vulkan0", 8 * GB, 5 * GB), (DeviceMemory("vulkan", 8 * GB, 5 * GB, unified=True),)),
        ((1, b"MTL0", 11 * GB, 9 * GB), (DeviceMemory("metal", 11 * GB, 9 * GB, unified=True),)),
        ((1, b"Metal", 11 * GB, 9 * GB), (DeviceMemory("metal", 11 * GB, 9 * GB, unified=True),)),
    ],
)
def test_gpus_alone_are_told(loaded: pytest.MonkeyPatch, device: Any, told: tuple[DeviceMemory, ...]) -> None:
    loaded.setattr(llama_devices, "_library", lambda: Library(device, (0, b"CPU", GB, GB)))
    assert llama_devices.devices() == told


def test_the_gpu_of_a_jetson_shares_the_machines_memory(loaded: pytest.MonkeyPatch) -> None:
    loaded.setattr(llama_devices, "_library", lambda: Library((1, b"CUDA0", 8 * GB, 5 * GB)))
    loaded.setattr(llama_devices, "_is_tegra", lambda: True)
    assert llama_devices.devices() == (DeviceMemory("cuda", 8 * GB, 5 * GB, unified=True),)


def test_the_real_library_tells_the_processor_with_the_machines_memory(loaded: pytest.MonkeyPatch) -> None:
    (processor,) = (one for one in llama_devices.listed(llama_devices._library()) if one[0] == 0)
    _, kind, total, free = processor
    assert kind == "cpu"
    assert total == pytest.approx(psutil.virtual_memory().total, rel=0.01)
    assert 0 < free <= total
    assert all(0 < one.free <= one.total for one in llama_devices.devices())


def test_asking_loads_nothing() -> None:
    code = (
        "import sys; from edgeserve.engines.llama.devices import devices; print(devices(), 'llama_cpp' in sys.modules)"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "() False"
