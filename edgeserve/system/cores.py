"""Processor cores that this process may use."""

from __future__ import annotations

import math
import os
from pathlib import Path

from edgeserve.system import cgroup


def usable(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """Cores of the process's affinity (taskset, cpusets), at most the quota of its control groups; at least one.

    All cores of the machine count on a system that tells no affinity.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cgroup.read_cpu_quota(proc, cgroups)
    # A quota of 1.5 cores is used up by two threads, not by one.
    return max(1, cores if quota is None else min(cores, math.ceil(quota)))


def default_threads(most: int) -> int:
    """Threads of an engine whose configuration names none: one for each usable core, at most ``most``."""
    return min(most, usable())
