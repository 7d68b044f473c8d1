"""The accelerator as the runtimes see it: their own figures of its devices, added up, and each device counted once."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence

from edgeserve.engine import Allocator, AllocatorMemory, DeviceMemory
from edgeserve.system.readings import Accelerator

Devices = Callable[[], Sequence[DeviceMemory]]
"""What a runtime tells of its devices now; empty where it has none or has not been loaded. Any thread."""


class DeviceReader:
    """Reads ``devices``, and ``mlx`` where there is one. ``held``: bytes that our engines say they hold on the devices;
    their runtime knows only what is free. ``mapped``: of their weights, what is mapped from files."""

    def __init__(self, devices: Devices, held: Callable[[], int] = lambda: 0, mlx: Allocator | None = None) -> None:
        self.held = held
        self.mapped: Callable[[], int] = lambda: 0
        self._devices = devices
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
            # Metal counts the process's own, and with it weights that are used where they are mapped: booked as such,
            # and droppable. Elsewhere others' memory is missing from what is free as well.
            active=max(0, total - free - self.mapped()) if metal else min(total - free, self.held()),
            # The total of a unified device is what its driver advises to take.
            recommended=total if unified else None,
            unified=unified,
        )

    def clear_cache(self) -> None:
        """MLX's. llama.cpp keeps none: it frees device memory with the model or context that it is for."""
        if self._mlx:
            self._mlx.clear_cache()


def joined(device: Accelerator, mlx: AllocatorMemory) -> Accelerator:
    """The GPU of a Mac, which llama.cpp (``device``) and MLX compute on both.

    What Metal tells llama.cpp that the process holds there includes what MLX holds. Should it not, the larger of the
    two is still no more than is really held.
    """
    if mlx.recommended is None:
        return dataclasses.replace(device, mlx=mlx)  # on the processor: in the process's own memory
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
