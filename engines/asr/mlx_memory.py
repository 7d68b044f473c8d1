"""Memory of MLX, as MLX's allocator reports it, and the limits of this allocator."""

from __future__ import annotations

import functools
from typing import Any

from edgeserve.device import AllocatorMemory


@functools.cache
def core() -> Any:
    """The module ``mlx.core``, loaded once. Raises ImportError."""
    import mlx.core

    return mlx.core


def limit(memory: int, cache: int, wired: int | None) -> None:
    """Set MLX's limits, in bytes, and reset its peak. MLX's build for the processor enforces none of the limits.

    - memory: beyond this, MLX waits for running work to free memory before it takes more.
    - cache: beyond this, MLX gives cached arrays back.
    - wired: this much stays resident; at most as much as Metal recommends, for MLX refuses more.
    """
    mx = core()
    mx.set_memory_limit(memory)
    mx.set_cache_limit(cache)
    if wired is not None:
        mx.set_wired_limit(min(wired, _recommended() or wired))
    mx.reset_peak_memory()


class MlxAllocator:
    def read(self) -> AllocatorMemory | None:
        """None until an engine has loaded MLX."""
        if not core.cache_info().currsize:
            return None
        mx = core()
        return AllocatorMemory(
            active=mx.get_active_memory(),
            cached=mx.get_cache_memory(),
            peak=mx.get_peak_memory(),
            recommended=_recommended(),
        )

    def clear_cache(self) -> None:
        if core.cache_info().currsize:
            core().clear_cache()


def _recommended() -> int | None:
    mx = core()
    return int(mx.device_info()["max_recommended_working_set_size"]) if mx.metal.is_available() else None
