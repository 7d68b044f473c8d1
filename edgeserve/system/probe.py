"""Readings of memory: process, machine, control groups, accelerator; on demand and once a second."""

from __future__ import annotations

import dataclasses
import logging
import sys
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from edgeserve.system import cgroup, command, procfs, sysctl, vm_stat
from edgeserve.system.family import Family
from edgeserve.system.readings import Accelerator, AcceleratorReader, GroupLimit, NullAccelerator, Readings, Stall
from edgeserve.units import MB

log = logging.getLogger("edgeserve.memory")


class Probe:
    """Reads on demand (``read``, ``read_quick``) and every ``interval`` seconds in a thread of its own (``latest``).

    ``override_mb`` simulates a smaller machine that runs nothing else; 0 reads the real one. ``proc`` and ``cgroups``
    are the roots to read, so that tests can record them. ``workers`` returns the pids of the server's other processes,
    whose memory counts with its own. ``helpers`` returns those of them that serve one request each.
    """

    def __init__(
        self,
        *,
        override_mb: int = 0,
        proc: Path = Path("/proc"),
        cgroups: Path = Path("/sys/fs/cgroup"),
        platform: str = sys.platform,
        run: command.Run = command.run,
        accelerator: AcceleratorReader | None = None,
        workers: Callable[[], Iterable[int]] = tuple,
        helpers: Callable[[], Iterable[int]] = tuple,
        interval: float = 1.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.accelerator = accelerator or NullAccelerator()
        self._family = Family(workers, proc, platform, helpers)
        self._override = override_mb * MB
        self._proc = proc
        self._cgroups = cgroups
        self._platform = platform
        self._run = run
        self.interval = interval
        """Seconds between two readings of the thread."""
        self._clock = clock
        self._latest: Readings | None = None
        self._stopped = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self, then: Callable[[], object] = lambda: None) -> None:
        """Start the reader thread, which calls ``then`` after each reading. May be called again after ``stop``."""
        self._stopped.clear()
        self._thread = threading.Thread(target=self._loop, args=[then], name="edgeserve-probe", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Blocks until the reading under way is over."""
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()
            self._thread = None

    def latest(self) -> Readings:
        """The last reading; a fresh one when the last is older than two intervals, as it may be without the thread."""
        last = self._latest
        if last is None or self._clock() - last.at > 2 * self.interval:
            return self.read_quick()
        return last

    def machine(self) -> int:
        """Bytes of the machine, or of its control group. No process is read, and no accelerator."""
        if self._platform == "darwin":
            total = sysctl.parse(self._run(sysctl.MEMORY))[sysctl.SIZE]
        else:
            total, _ = procfs.parse_meminfo((self._proc / "meminfo").read_text(encoding="ascii"))
            group = cgroup.read_limit(self._proc, self._cgroups)
            total = min(total, group.limit) if group else total
        return min(total, self._override or total)

    def known(self) -> Readings:
        """The last reading, however old, while the thread reads; without the thread as ``latest``.

        For the event loop: a reading may wait for the kernel, as long as a new worker maps its model on a full box.
        """
        last = self._latest
        return self.latest() if last is None or self._thread is None else last

    def read(self) -> Readings:
        """A fresh, exact reading: the kernel counts every page of each process, 17 ms for each GB in 4 KB pages."""
        return self._read(exact=True)

    def read_quick(self) -> Readings:
        """A fresh reading in half a millisecond at any size: pages shared with other processes count in full."""
        return self._read(exact=False)

    def _read(self, exact: bool) -> Readings:
        readings = self._read_macos() if self._platform == "darwin" else self._read_linux(exact)
        if self._override:
            readings = simulate(readings, self._override)
        self._latest = readings
        return readings

    def _loop(self, then: Callable[[], object]) -> None:
        while not self._stopped.wait(self.interval):
            try:
                self.read_quick()
                then()
            except Exception:
                log.exception("memory could not be read; the next reading is in %g s", self.interval)

    def _read_linux(self, exact: bool) -> Readings:
        total, available = procfs.parse_meminfo((self._proc / "meminfo").read_text(encoding="ascii"))
        return Readings(
            at=self._clock(),
            machine_total=total,
            machine_available=available,
            process=self._family.read() if exact else self._family.read_quick(),
            group=cgroup.read_limit(self._proc, self._cgroups),
            accelerator=self.accelerator.read(),
            stall=self._read_stall(),
        )

    def _read_stall(self) -> Stall | None:
        """Stalls of our own control group, else of the whole machine, which other programs may cause."""
        for folder, version in cgroup.folders(self._proc, self._cgroups):
            if version is cgroup.V2 and (stall := procfs.read_stall(folder / "memory.pressure")):
                return stall
        return procfs.read_stall(self._proc / "pressure" / "memory")

    def _read_macos(self) -> Readings:
        values = sysctl.parse(self._run(sysctl.MEMORY))
        level, total = sysctl.pressure(values), values[sysctl.SIZE]
        smaller = min(total, self._override or total)
        return Readings(
            at=self._clock(),
            machine_total=total,
            machine_available=vm_stat.safe_available(vm_stat.parse(self._run(["vm_stat"])), level),
            process=self._family.read(),
            accelerator=advised(self.accelerator.read(), sysctl.working_set(values, smaller)),
            system_pressure=level,
        )


def advised(accelerator: Accelerator, working_set: int | None) -> Accelerator:
    """Until a runtime reports the GPU, the system's advice stands in: the first load must keep to it already."""
    if accelerator.total or working_set is None:
        return accelerator
    return dataclasses.replace(accelerator, recommended=working_set, unified=True)


def simulate(readings: Readings, total: int) -> Readings:
    """The same process on a machine of ``total`` bytes that runs nothing else.

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
