"""Memory that is still available, for copies that a server can do without.

An allocation does not fail on a system that promises more memory than it has: the system ends a process later.
"""

from __future__ import annotations

from pathlib import Path

from edgeserve.system import cgroup, procfs

PART = 1 / 4
"""Part of the available memory that one copy may take. Below HIGH pressure no such copy makes it CRITICAL."""
LARGE = 16 << 20
"""Bytes from which a copy is looked at."""
PROC, GROUPS = Path("/proc"), Path("/sys/fs/cgroup")


class NoRoom(MemoryError):
    """A copy would take too much of the available memory."""


def available(proc: Path = PROC, groups: Path = GROUPS) -> int | None:
    """Bytes that the machine and the control groups leave to this process. None where the system does not say."""
    try:
        machine = procfs.parse_meminfo((proc / "meminfo").read_text(encoding="ascii"))[1]
        group = cgroup.read_limit(proc, groups)
    except (OSError, KeyError, ValueError):  # no Linux, or a sandbox
        return None
    return min(machine, group.headroom) if group is not None else machine


def check(size: int) -> None:
    """Raises NoRoom for a copy of so many bytes that the available memory has no room for."""
    free = available() if size >= LARGE else None
    if free is not None and size > PART * free:
        raise NoRoom(f"{size >> 20} MB are more than a quarter of the {free >> 20} MB of memory that are available")
