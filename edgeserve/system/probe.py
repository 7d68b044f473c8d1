"""Readings of memory: process, machine, control groups, accelerator; on demand and once a second. Decides nothing."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from edgeserve.system import cgroup, procfs, sysctl, vm_stat
from edgeserve.system.readings import (
    Accelerator,
    AcceleratorReader,
    GroupLimit,
    NullAccelerator,
    ProcessMemory,
    Readings,
    Stall,
)
from edgeserve.units import MB

log = logging.getLogger("edgeserve.memory")

COMMAND_SECONDS = 5.0

Run = Callable[[Sequence[str]], str]
"""Runs a command of the system and returns what it printed."""


def run_command(command: Sequence[str]) -> str:
    """Raises OSError or subprocess.SubprocessError."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_SECONDS, check=True)  # noqa: S603
    return ended.stdout


class Probe:
    """Reads on demand (``read``) and, once started, every ``interval`` seconds in a thread (``latest``).

    ``override_mb`` simulates a smaller machine, used by nobody else, everywhere a total or an available is read;
    0 is the real one. All roots are given, so that recorded ones can be read.
    """

    def __init__(
        self,
        *,
        override_mb: int = 0,
        proc: Path = Path("/proc"),
        cgroups: Path = Path("/sys/fs/cgroup"),
        platform: str = sys.platform,
        run: Run = run_command,
        accelerator: AcceleratorReader | None = None,
        interval: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.accelerator = accelerator or NullAccelerator()
        self._override = override_mb * MB
        self._proc = proc
        self._cgroups = cgroups
        self._platform = platform
        self._run = run
        self._interval = interval
        self._clock = clock
        self._latest: Readings | None = None
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the reader thread. May be called again after ``stop``."""
        self._stopped.clear()
        self._thread = threading.Thread(target=self._loop, name="edgeserve-probe", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Blocks until the reading under way is over."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def latest(self) -> Readings:
        """The last reading; read now when it is older than two intervals, as without the thread it may be."""
        seen = self._latest
        if seen is None or self._clock() - seen.at > 2 * self._interval:
            return self.glance()
        return seen

    def read(self) -> Readings:
        """A fresh, exact reading: the kernel counts every page of ours, some 17 ms for each GB in 4 KB pages."""
        return self._read(exact=True)

    def glance(self) -> Readings:
        """A fresh reading in half a millisecond, whatever is resident: pages shared with others count in full."""
        return self._read(exact=False)

    def _read(self, exact: bool) -> Readings:
        readings = self._read_macos() if self._platform == "darwin" else self._read_linux(exact)
        if self._override:
            readings = simulate(readings, self._override)
        self._latest = readings
        return readings

    def _loop(self) -> None:
        while not self._stopped.wait(self._interval):
            try:
                self.glance()
            except Exception:
                log.exception("memory could not be read; the next reading is in %g s", self._interval)

    def _read_linux(self, exact: bool) -> Readings:
        total, available = procfs.parse_meminfo((self._proc / "meminfo").read_text(encoding="ascii"))
        return Readings(
            at=self._clock(),
            machine_total=total,
            machine_available=available,
            process=self._read_process(exact),
            group=cgroup.read_limit(self._proc, self._cgroups),
            accelerator=self.accelerator.read(),
            stall=self._read_stall(),
        )

    def _read_process(self, exact: bool) -> ProcessMemory:
        own = self._proc / "self"
        if exact:
            # Not on kernels before 4.14, and not in every sandbox.
            with contextlib.suppress(OSError):
                return procfs.parse_smaps_rollup((own / "smaps_rollup").read_text(encoding="ascii"))
        return procfs.parse_status((own / "status").read_text(encoding="utf-8"))

    def _read_stall(self) -> Stall | None:
        """Of our own control group where it tells; the whole machine's stalls may be somebody else's."""
        for folder, version in cgroup.folders(self._proc, self._cgroups):
            if version is cgroup.V2 and (stall := procfs.read_stall(folder / "memory.pressure")):
                return stall
        return procfs.read_stall(self._proc / "pressure" / "memory")

    def _read_macos(self) -> Readings:
        told = sysctl.parse(self._run(sysctl.COMMAND))
        level, total = sysctl.pressure(told), told["hw.memsize"]
        smaller = min(total, self._override or total)
        return Readings(
            at=self._clock(),
            machine_total=total,
            machine_available=vm_stat.safe_available(vm_stat.parse(self._run(["vm_stat"])), level),
            process=_process_by_psutil(),
            accelerator=advised(self.accelerator.read(), sysctl.working_set(told, smaller)),
            system_pressure=level,
        )


def advised(accelerator: Accelerator, working_set: int | None) -> Accelerator:
    """Until a runtime has told of the GPU, what the system says of it: the first load must keep to it already."""
    if accelerator.total or working_set is None:
        return accelerator
    return dataclasses.replace(accelerator, recommended=working_set, unified=True)


def simulate(readings: Readings, total: int) -> Readings:
    """The same process on a machine of ``total`` bytes where nobody else runs: what others use here is not its.

    Mapped pages are droppable and so available, as in the real figure. A GPU that shares the memory recommends the
    same share of it.
    """
    accelerator = readings.accelerator
    if accelerator.unified and accelerator.total and accelerator.recommended and total < readings.machine_total:
        smaller = accelerator.recommended * total // readings.machine_total
        accelerator = dataclasses.replace(accelerator, recommended=smaller)
    available = max(0, total - readings.unreclaimable)
    group = readings.group and GroupLimit(min(readings.group.limit, total), min(readings.group.headroom, available))
    return dataclasses.replace(
        readings,
        machine_total=min(readings.machine_total, total),
        machine_available=min(readings.machine_available, available),
        group=group,
        accelerator=accelerator,
    )


def _process_by_psutil() -> ProcessMemory:
    """Where there is no proportional share: what is unique to us is ours, the rest of the resident set is file."""
    import psutil

    full = psutil.Process().memory_full_info()
    return ProcessMemory(anon=full.uss, file=max(0, full.rss - full.uss), total=full.rss)
