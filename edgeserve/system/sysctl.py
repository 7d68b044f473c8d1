"""macOS: values of ``sysctl``, and the facts about memory in them."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from edgeserve.system import command as commands
from edgeserve.system.readings import SystemPressure
from edgeserve.units import GB, MB


def command(*names: str) -> tuple[str, ...]:
    """One process reads all names. ``-i`` passes over a name that the system does not know."""
    return ("/usr/sbin/sysctl", "-i", *names)


SIZE, LEVEL, WIRED_LIMIT = "hw.memsize", "kern.memorystatus_vm_pressure_level", "iogpu.wired_limit_mb"
MEMORY = command(SIZE, LEVEL, WIRED_LIMIT)
"""The command whose output ``parse`` reads. Intel Macs do not know the last name."""

SHARES = ((36, 2 / 3), (float("inf"), 3 / 4))
"""Machines up to so many GB, and the share that their GPU's working set has by default.
Recorded: 67% of 16 GB (macOS 13), 78% of 48, 81% of 64 and 84% of 128 GB (macOS 26). Apple publishes no rule."""


def value(name: str) -> str:
    """The value of one name; "" for a name that the system does not know, and on systems other than macOS."""
    return commands.output(command(name)).partition(":")[2].strip() if sys.platform == "darwin" else ""


def parse(text: str) -> Mapping[str, int]:
    """``name: number`` on each line; other lines are passed over. Raises ValueError without the size of the memory."""
    rows = (line.partition(":") for line in text.splitlines())
    values = {name.strip(): int(number) for name, _, number in rows if number.strip().isdecimal()}
    if SIZE not in values:
        raise ValueError(f"not the output of {' '.join(MEMORY)}: {text[:80]!r}")
    return values


def pressure(values: Mapping[str, int]) -> SystemPressure:
    """The system's level; an unknown one counts as a warning."""
    level = values.get(LEVEL)
    return SystemPressure(level) if level in tuple(SystemPressure) else SystemPressure.WARN


def working_set(values: Mapping[str, int], total: int) -> int | None:
    """Bytes that Metal will recommend to take at most, on a Mac of ``total`` bytes.

    None where the GPU shares no memory. ``iogpu.wired_limit_mb`` sets the working set; 0 stands for the default share.
    """
    limit = values.get(WIRED_LIMIT)
    if limit is None:
        return None
    if limit:
        return min(limit * MB, total)
    return int(total * next(share for most, share in SHARES if total <= most * GB))
