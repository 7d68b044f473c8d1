"""The accelerator's memory: the figures of the runtimes, added up, each device counted once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from edgeserve.device import Allocator, AllocatorMemory, DeviceMemory
from edgeserve.system.readings import Accelerator

Devices = Callable[[], Sequence[DeviceMemory]]
"""Returns a runtime's devices; none before the runtime is loaded. Any thread."""


class DeviceReader:
    """Reads the devices and MLX's allocator.

    ``held``: bytes that the engines hold on the devices, since their runtime reports free bytes only. ``mapped``: bytes
    of the engines' weights that a GPU uses where they are mapped.
    """

    def __init__(
        self,
        devices: Devices,
        held: Callable[[], int] = lambda: 0,
        mapped: Callable[[], int] = lambda: 0,
        mlx: Allocator | None = None,
    ) -> None:
        self._devices = devices
        self._held = held
        self._mapped = mapped
        self._mlx = mlx

    def read(self) -> Accelerator:
        device, mlx = self._device(), self._mlx.read() if self._mlx else None
        return device if mlx is None else joined(device, mlx)

    def _device(self) -> Accelerator:
        devices = self._devices()
        if not devices:
            return Accelerator()
        # Two backends in one build, such as CUDA and Vulkan, list the same card twice.
        same = [one for one in devices if one.name == devices[0].name]
        total, free = sum(one.total for one in same), sum(one.free for one in same)
        unified, metal = all(one.unified for one in same), devices[0].name == "metal"
        return Accelerator(
            name=devices[0].name,
            total=total,
            free=free,
            # Metal reports this process's memory, weights included that are used where they are mapped: the accounts
            # book those as mapped and droppable. On other devices the memory of other programs is not free either.
            active=max(0, total - free - self._mapped()) if metal else min(total - free, self._held()),
            # The total of a unified device is the figure that its driver advises to take.
            recommended=total if unified else None,
            unified=unified,
        )

    def clear_cache(self) -> None:
        """Clear MLX's cache. llama.cpp keeps none: it frees device memory with the model or context that used it."""
        if self._mlx:
            self._mlx.clear_cache()


def joined(device: Accelerator, mlx: AllocatorMemory) -> Accelerator:
    """Memory of a Mac's GPU when both llama.cpp (``device``) and MLX use it.

    Metal's figure for the process should include the memory that MLX holds. The larger of the two figures is safe in
    either case: it never exceeds the memory really held.
    """
    if mlx.recommended is None:
        # MLX computes on the processor: its arrays are in the process's own memory.
        return dataclasses.replace(device, mlx=mlx)
    total = device.total or mlx.recommended
    held = max(device.active, mlx.active + mlx.cached)
    return Accelerator(
        name="metal",
        total=total,
        free=max(0, min(device.free, total - held) if device.total else total - held),
        active=held - mlx.cached,
        cached=mlx.cached,
        recommended=total,
        unified=True,
        mlx=mlx,
    )
