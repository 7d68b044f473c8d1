"""What is read of memory: plain figures in bytes, frozen, judged by nobody here."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field
from typing import Protocol

from edgeserve.engine import AllocatorMemory


@dataclass(frozen=True, slots=True)
class ProcessMemory:
    """Proportional share of the server's process: ``anon`` is ours, ``file`` is mapped and droppable.

    ``total`` holds shared memory as well, which is no more droppable than anonymous memory.
    """

    anon: int = 0
    file: int = 0
    total: int = 0

    @property
    def own(self) -> int:
        """What the system cannot take back."""
        return self.total - self.file


@dataclass(frozen=True, slots=True)
class Accelerator:
    """Memory of a GPU. ``unified``: it is the machine's own (Apple, Jetson). ``recommended``: the driver's advice, also
    before a runtime has told of the GPU. ``mlx``: what MLX's allocator tells, on a GPU or not; None until it is loaded.
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
        """Metal's; before a runtime has told of it, only a Mac advises."""
        return self.unified and self.name in ("metal", "none")


class AcceleratorReader(Protocol):
    """The backends' own device memory, behind one door; any thread."""

    def read(self) -> Accelerator: ...

    def clear_cache(self) -> None:
        """Give cached device memory back; may return before the system has it."""
        ...


class NullAccelerator:
    """A machine without one."""

    def read(self) -> Accelerator:
        return Accelerator()

    def clear_cache(self) -> None: ...


class SystemPressure(enum.IntEnum):
    """``kern.memorystatus_vm_pressure_level`` of macOS; NORMAL elsewhere."""

    NORMAL = 1
    WARN = 2
    CRITICAL = 4


@dataclass(frozen=True, slots=True)
class Stall:
    """PSI: percent of the last ten seconds in which some, or all, tasks waited for memory."""

    some: float
    full: float


@dataclass(frozen=True, slots=True)
class GroupLimit:
    """The tightest control group above us: smallest limit, and smallest headroom of all that have a limit."""

    limit: int
    headroom: int


@dataclass(frozen=True, slots=True)
class Readings:
    """One look at memory. ``machine_total`` and ``machine_available`` ignore control groups; ``total`` and
    ``available`` are what we may count on. ``at`` is on the probe's clock."""

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
        """What of ours the system cannot take back: pages without a file, device memory that is the machine's own."""
        device = self.accelerator.active + self.accelerator.cached if self.accelerator.unified else 0
        return max(self.process.own, device)
