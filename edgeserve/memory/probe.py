"""Readings of memory: the process, the system, the control groups above it. No decision is made here."""

from __future__ import annotations

import ctypes
import gc
import logging
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import psutil

log = logging.getLogger("edgeserve.memory")

MB = 1 << 20
UNLIMITED = 1 << 60
"""cgroup v1 writes "no limit" as a number near 2**63, rounded to pages."""


@dataclass(frozen=True, slots=True)
class Readings:
    """Bytes. ``total`` and ``available`` are those of the box: the machine, or the smallest control group above us.

    ``pss_anon`` is ours alone; ``pss_file`` is our share of mapped files, which the system may drop.
    """

    total: int
    available: int
    pss_anon: int
    pss_file: int

    @property
    def pss(self) -> int:
        return self.pss_anon + self.pss_file


@dataclass(frozen=True, slots=True)
class Group:
    """One control group: its limit, and what is left of it counting droppable file pages as free."""

    limit: int
    headroom: int


class Probe:
    """Reads on demand (``read``) and, once started, every second in a thread (``latest``).

    ``override_mb`` simulates a smaller machine everywhere a total or an available is read.
    """

    def __init__(
        self,
        *,
        override_mb: int = 0,
        proc: Path = Path("/proc"),
        cgroup: Path = Path("/sys/fs/cgroup"),
        interval: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._override = override_mb * MB
        self._proc = proc
        self._cgroup = cgroup
        self._interval = interval
        self._clock = clock
        self._latest: tuple[float, Readings] | None = None
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        self._thread = threading.Thread(target=self._loop, name="edgeserve-probe", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def latest(self) -> Readings:
        """A reading at most two intervals old."""
        seen = self._latest
        if seen is None or self._clock() - seen[0] > 2 * self._interval:
            return self.read()
        return seen[1]

    def read(self) -> Readings:
        """A fresh reading; a few milliseconds for a process with gigabytes mapped."""
        anon, file = self._process()
        total, available = self._box()
        if self._override:
            used = total - available
            total, available = min(total, self._override), max(0, min(available, self._override - anon - file))
            log.debug("simulating %d MB of memory; %d MB are used for real", total // MB, used // MB)
        readings = Readings(total, available, anon, file)
        self._latest = (self._clock(), readings)
        return readings

    def _loop(self) -> None:
        while not self._stopped.wait(self._interval):
            try:
                self.read()
            except OSError:
                log.exception("memory could not be read; the next reading is in %g s", self._interval)

    def _process(self) -> tuple[int, int]:
        rollup = self._proc / "self" / "smaps_rollup"
        if not rollup.exists():
            full = psutil.Process().memory_full_info()
            return full.uss, max(0, full.rss - full.uss)
        rows = {}
        for line in rollup.read_text(encoding="ascii").splitlines()[1:]:
            name, _, value = line.partition(":")
            rows[name] = int(value.split()[0]) * 1024
        return rows.get("Pss_Anon", rows.get("Anonymous", 0)), rows.get("Pss_File", 0)

    def _box(self) -> tuple[int, int]:
        machine = psutil.virtual_memory()
        total, available = int(machine.total), int(machine.available)
        for group in groups(self._proc, self._cgroup):
            total, available = min(total, group.limit), min(available, max(0, group.headroom))
        return total, available


def groups(proc: Path, root: Path) -> list[Group]:
    """Control groups with a memory limit, from this process's own up to the root, versions 1 and 2.

    ``memory.current`` counts page cache, mapped weights included: headroom = limit - current + file pages.
    """
    try:
        lines = (proc / "self" / "cgroup").read_text(encoding="ascii").splitlines()
    except OSError:
        return []
    found = []
    for line in lines:
        _, controllers, path = line.split(":", 2)
        limits: tuple[str, ...] = ("memory.max", "memory.high")
        base, current = root, "memory.current"
        if "memory" in controllers.split(","):
            limits = ("memory.limit_in_bytes",)
            base, current = root / "memory", "memory.usage_in_bytes"
        elif controllers:
            continue
        here = Path(path.lstrip("/"))
        for folder in [base / here, *(base / parent for parent in here.parents)]:
            found += [group for name in limits if (group := _group(folder, name, current))]
    return found


def _group(folder: Path, limit_name: str, current_name: str) -> Group | None:
    limit = _number(folder / limit_name)
    current = _number(folder / current_name)
    if limit is None or current is None or limit >= UNLIMITED:
        return None
    droppable = 0
    try:
        for line in (folder / "memory.stat").read_text(encoding="ascii").splitlines():
            name, _, value = line.partition(" ")
            if name in ("inactive_file", "active_file"):
                droppable += int(value)
    except OSError:
        log.debug("%s has no memory.stat; its page cache counts as used", folder)
    return Group(limit, limit - current + droppable)


def _number(path: Path) -> int | None:
    try:
        text = path.read_text(encoding="ascii").strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def trim() -> None:
    """Collect garbage and give the heap's free pages back to the system (glibc; elsewhere only the former)."""
    gc.collect()
    if sys.platform == "linux":
        malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
        if malloc_trim is not None:
            malloc_trim(0)
