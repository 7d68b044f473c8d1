"""The devices that engines compute on, and their memory."""

from __future__ import annotations

from typing import Literal, Protocol

from edgeserve.dataclass import dataclass

Device = Literal["auto", "cpu", "cuda", "metal"]


@dataclass(frozen=True, slots=True)
class DeviceMemory:
    """One accelerator as a runtime sees it, in bytes. ``name``: "cuda" or "metal". ``unified``: its memory is the
    machine's own."""

    name: str
    total: int
    free: int
    unified: bool = False


@dataclass(frozen=True, slots=True)
class AllocatorMemory:
    """Memory of a runtime's own allocator, in bytes.

    ``active``: in arrays. ``cached``: free, and kept for the next array. ``peak``: the most that was active since the
    last load. ``recommended``: the limit that the GPU advises; None on the processor.
    """

    active: int
    cached: int
    peak: int
    recommended: int | None = None


class Allocator(Protocol):
    """The allocator of a runtime that keeps freed memory. Any thread."""

    def read(self) -> AllocatorMemory | None:
        """None until an engine has loaded the runtime. Never loads it."""
        ...

    def clear_cache(self) -> None:
        """Return the cached memory to the system; does nothing before the runtime is loaded."""
        ...
