"""Readings of memory: plain figures in bytes."""

from __future__ import annotations

import enum
from collections.abc import Mapping
from dataclasses import field
from typing import Protocol

from edgeserve.dataclass import dataclass
from edgeserve.device import AllocatorMemory


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Proportional share of the server's process: ``anon`` is anonymous, ``file`` is mapped and droppable.

    ``total`` includes shared memory, which is no more droppable than anonymous memory. ``helpers``: bytes of it, not
    droppable, that belong to processes which serve one request each. ``workers``: such bytes of each other process
    that the server has started, by its pid.
    """

    anon: int = 0
    file: int = 0
    total: int = 0
    helpers: int = 0
    workers: Mapping[int, int] = field(default_factory=dict, compare=False)

    @property
    def own(self) -> int:
        """Bytes that the system cannot take back."""
        return self.total - self.file


@dataclass(frozen=True, slots=True)
class Accelerator:
    """Memory of a GPU. ``unified``: the GPU uses the machine's memory (Apple, Jetson).

    ``recommended``: bytes that the driver advises to take, known before a runtime reports the GPU. ``mlx``: figures of
    MLX's allocator, on a GPU or not; None until MLX is loaded.
    """

    name: str = "none"
    total: int = 0
    free: int = 0
    active: int = 0
    cached: int = 0
    recommended: int | None = None
    unified: bool = False
    mlx: AllocatorMemory | None = None

    @property
    def has_own_memory(self) -> bool:
        return self.total > 0 and not self.unified

    @property
    def is_apple(self) -> bool:
        """A GPU of Metal. Before a runtime reports the GPU, only a Mac gives advice."""
        return self.unified and self.name in ("metal", "none")


class AcceleratorReader(Protocol):
    """Device memory as the runtimes report it. Any thread."""

    def read(self) -> Accelerator: ...

    def clear_cache(self) -> None:
        """Return cached device memory; the call may end before the system has it."""
        ...


class NullAccelerator:
    """A machine without an accelerator."""

    def read(self) -> Accelerator:
        return Accelerator()

    def clear_cache(self) -> None: ...


class SystemPressure(enum.IntEnum):
    """``kern.memorystatus_vm_pressure_level`` of macOS; NORMAL on other systems."""

    NORMAL = 1
    WARN = 2
    CRITICAL = 4


@dataclass(frozen=True, slots=True)
class Stall:
    """PSI: percent of the last ten seconds in which some tasks, or all tasks, waited for memory."""

    some: float
    full: float


@dataclass(frozen=True, slots=True)
class GroupLimit:
    """The smallest limit and the smallest headroom among this process's control groups."""

    limit: int
    headroom: int


@dataclass(frozen=True, slots=True)
class Readings:
    """All figures of one moment; ``at`` on the probe's clock.

    ``machine_total`` and ``machine_available`` ignore control groups; ``total`` and ``available`` respect them.
    """

    at: float
    machine_total: int
    machine_available: int
    process: ProcessMemory = ProcessMemory()
    group: GroupLimit | None = None
    accelerator: Accelerator = field(default_factory=Accelerator)
    stall: Stall | None = None
    system_pressure: SystemPressure = SystemPressure.NORMAL

    @property
    def total(self) -> int:
        return min(self.machine_total, self.group.limit) if self.group else self.machine_total

    @property
    def available(self) -> int:
        return min(self.machine_available, self.group.headroom) if self.group else self.machine_available

    @property
    def unreclaimable(self) -> int:
        """Bytes of the server that the system cannot take back: pages without a file, or unified device memory."""
        device = self.accelerator.active + self.accelerator.cached if self.accelerator.unified else 0
        return max(self.process.own, device)
