"""macOS: what ``sysctl`` tells of memory, from its text."""

from __future__ import annotations

from collections.abc import Mapping

from edgeserve.system.readings import SystemPressure
from edgeserve.units import GB, MB

NAMES = ("hw.memsize", "kern.memorystatus_vm_pressure_level", "iogpu.wired_limit_mb")
COMMAND = ("sysctl", "-i", *NAMES)
"""One process for all; ``-i`` passes over a name that the system does not know, as Intel Macs do not the last."""

SHARES = ((36, 2 / 3), (float("inf"), 3 / 4))
"""Of machines up to so many GB, the GPU's working set by default (reference/unified-memory-budget.md, "RAM cap").
Recorded: 67% of 16 GB (macOS 13), 78% of 48, 81% of 64 and 84% of 128 GB (macOS 26). Apple publishes no rule."""


def parse(text: str) -> Mapping[str, int]:
    """``name: number`` on each line; other lines are passed over. Raises ValueError without the size of the memory."""
    rows = (line.partition(":") for line in text.splitlines())
    told = {name.strip(): int(value) for name, _, value in rows if value.strip().isdecimal()}
    if "hw.memsize" not in told:
        raise ValueError(f"not the output of {' '.join(COMMAND)}: {text[:80]!r}")
    return told


def pressure(told: Mapping[str, int]) -> SystemPressure:
    """A level that is not known is taken as a warning."""
    level = told.get("kern.memorystatus_vm_pressure_level")
    return SystemPressure(level) if level in tuple(SystemPressure) else SystemPressure.WARN


def working_set(told: Mapping[str, int], total: int) -> int | None:
    """Bytes that Metal will recommend to take at most, on a Mac of ``total`` bytes; None where it shares no memory.

    What ``iogpu.wired_limit_mb`` is set to; 0 there is the system's own share.
    """
    limit = told.get("iogpu.wired_limit_mb")
    if limit is None:
        return None
    if limit:
        return min(limit * MB, total)
    return int(total * next(share for most, share in SHARES if total <= most * GB))
