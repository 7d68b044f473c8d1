"""The accelerator as the runtimes see it: their own figures of its devices, added up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from edgeserve.engine import DeviceMemory
from edgeserve.memory.readings import Accelerator

Devices = Callable[[], Sequence[DeviceMemory]]
"""What a runtime tells of its devices now; empty where it has none or has not been loaded. Any thread."""


class DeviceReader:
    """Reads ``devices``. ``held``: bytes that our engines say they hold there; a runtime knows only what is free."""

    def __init__(self, devices: Devices, held: Callable[[], int] = lambda: 0) -> None:
        self.held = held
        self._devices = devices

    def read(self) -> Accelerator:
        devices = self._devices()
        if not devices:
            return Accelerator()
        # Two backends in one build, such as CUDA and Vulkan, list the same card twice.
        same = [one for one in devices if one.name == devices[0].name]
        total, free = sum(one.total for one in same), sum(one.free for one in same)
        unified = all(one.unified for one in same)
        return Accelerator(
            name=devices[0].name,
            total=total,
            free=free,
            # Metal counts the process's own; elsewhere others' memory is missing from what is free as well.
            active=total - free if devices[0].name == "metal" else min(total - free, self.held()),
            # The total of a unified device is what its driver advises to take.
            recommended=total if unified else None,
            unified=unified,
        )

    def clear_cache(self) -> None:
        """Nothing: llama.cpp frees device memory with the model or context that it is for."""
