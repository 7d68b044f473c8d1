"""Processor cores that this process may run on."""

from __future__ import annotations

import os


def usable() -> int:
    """Those of its affinity (taskset, cpusets of containers) where the system tells, else all; at least one."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1
