"""Memory of the accelerators that llama.cpp computes on, as its backends report it."""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgeserve.device import DeviceMemory
from edgeserve.engines.llama.bindings import load
from edgeserve.engines.llama.runtime import llama

GPU, IGPU = 1, 2
"""enum ggml_backend_dev_type: a GPU, and an integrated GPU, which shares the machine's memory."""
COMPATIBLE = Path("/proc/device-tree/compatible")


def devices() -> tuple[DeviceMemory, ...]:
    """Every GPU. Any thread. Empty in these cases:

    - The machine has no GPU, or the build of llama.cpp cannot use it.
    - No engine has loaded llama.cpp yet, so this process has nothing on a GPU. This function never loads llama.cpp.
    """
    if not llama.cache_info().currsize:
        return ()
    shared = _is_tegra()
    return tuple(
        DeviceMemory(kind, total, free, unified=number == IGPU or kind == "metal" or shared)
        for number, kind, total, free in listed(_library())
        if number in (GPU, IGPU)
    )


def accelerators() -> int:
    """Number of GPUs that a model can be split over."""
    return sum(number in (GPU, IGPU) for number, *_ in listed(_library()))


def listed(library: Any) -> Iterator[tuple[int, str, int, int]]:
    """Type, kind such as "cuda", total and free bytes of every device, the processor included."""
    for index in range(library.ggml_backend_dev_count()):
        device = library.ggml_backend_dev_get(index)
        free, total = ctypes.c_size_t(), ctypes.c_size_t()
        library.ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
        kind = _kind(library.ggml_backend_dev_name(device))
        yield library.ggml_backend_dev_type(device), kind, total.value, free.value


def _kind(name: bytes) -> str:
    """The kind of device: "CUDA0" is "cuda". Metal's devices are "MTL0", or "Metal" in older releases."""
    letters = re.sub(r"[^a-z]", "", name.decode(errors="replace").lower())
    return "metal" if letters == "mtl" else letters


@functools.cache
def _library() -> Any:
    libggml = load("_ggml").libggml

    pointer, size = ctypes.c_void_p, ctypes.POINTER(ctypes.c_size_t)
    for name, arguments, result in (
        ("count", (), ctypes.c_size_t),
        ("get", (ctypes.c_size_t,), pointer),
        ("type", (pointer,), ctypes.c_int),
        ("name", (pointer,), ctypes.c_char_p),
        ("memory", (pointer, size, size), None),
    ):
        function = getattr(libggml, f"ggml_backend_dev_{name}")
        function.argtypes, function.restype = arguments, result
    return libggml


@functools.cache
def _is_tegra() -> bool:
    """Whether this is an NVIDIA Jetson. CUDA reports its GPU like any other, but it shares the machine's memory."""
    return COMPATIBLE.exists() and b"nvidia,tegra" in COMPATIBLE.read_bytes()
