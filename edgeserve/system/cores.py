"""Processor cores that this process may use."""

from __future__ import annotations

import math
import os
from collections.abc import Collection
from pathlib import Path

from edgeserve.system import cgroup

SYS_CPU = Path("/sys/devices/system/cpu")
SPEEDS = ("cpu_capacity", "cpufreq/cpuinfo_max_freq")
"""Files with the speed of a core, relative to other cores of the machine: of ARM, and of processors that change it."""
FAST_SHARE = 0.8
"""A core of at least this share of the fastest one's speed is fast. Efficiency cores have 0.4 to 0.75; the best core of
a processor turns some percent faster than its neighbours."""


def allowed() -> Collection[int]:
    """Numbers of the cores in the process's affinity (taskset, cpusets); all cores on a system without affinity."""
    if hasattr(os, "sched_getaffinity"):
        return os.sched_getaffinity(0)
    return range(os.cpu_count() or 1)


def usable(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Cores of the process's affinity (taskset, cpusets), at most the quota of its control groups; at least one.

    All cores of the machine count on a system without affinity.
    """
    quota = cgroup.read_cpu_quota(proc, cgroups)
    # A quota of 1.5 cores is used up by two threads, not by one.
    return max(1, len(allowed()) if quota is None else min(len(allowed()), math.ceil(quota)))


def fast_ones(root: Path = SYS_CPU) -> Collection[int]:
    """Cores of the affinity that are no efficiency cores; all of them where the system gives no speeds.

    Threads of a runtime wait for each other several hundred times a token: a slow core holds up all the fast ones.
    """
    for name in SPEEDS:
        try:
            speeds = {one: int((root / f"cpu{one}" / name).read_text(encoding="ascii")) for one in allowed()}
        except (OSError, ValueError):
            continue
        return [one for one, speed in speeds.items() if speed >= FAST_SHARE * max(speeds.values())]
    return allowed()


def fast(root: Path = SYS_CPU) -> int:
    """The number of ``fast_ones``."""
    return len(fast_ones(root))


def default_threads(most: int) -> int:
    """Threads of an engine whose configuration names none: one for each usable fast core, at most ``most``."""
    return min(most, usable(), fast())
