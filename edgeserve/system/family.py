"""The memory of the serving process and of its workers together."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from pathlib import Path

from edgeserve.dataclass import dataclass
from edgeserve.system import process
from edgeserve.system.readings import ProcessMemory


@dataclass(frozen=True, slots=True)
class Shared:
    """Bytes of one worker that its counters count in full, and that it shares with other processes."""

    anon: int = 0
    file: int = 0
    total: int = 0


class Family:
    """``workers`` returns the pids of all processes that this one has started, ``helpers`` some of them. Any thread."""

    def __init__(
        self,
        workers: Callable[[], Iterable[int]] = tuple,
        proc: Path = process.PROC,
        platform: str = sys.platform,
        helpers: Callable[[], Iterable[int]] = tuple,
    ) -> None:
        self._workers, self._helpers = workers, helpers
        self._proc = proc
        self._platform = platform
        self._shared: dict[int, Shared] = {}

    def read(self) -> ProcessMemory:
        """Exact: the kernel walks every page of every process, some 17 ms for each GB in 4 KB pages."""
        return self._sum(process.read(self._proc, self._platform), exact=True)

    def read_quick(self) -> ProcessMemory:
        """By the kernel's counters, less what the latest exact reading of a worker has found to be shared."""
        return self._sum(process.read_counters(self._proc), exact=False)

    def _sum(self, own: ProcessMemory, exact: bool) -> ProcessMemory:
        helpers = tuple(self._helpers())  # first: one that ends meanwhile is no memory of the server itself
        others = self._each(exact)
        members = (own, *others.values())
        anon, file, total = (sum(getattr(one, name) for one in members) for name in ("anon", "file", "total"))
        sizes = {pid: one.own for pid, one in others.items()}
        serving = sum(sizes.pop(pid, 0) for pid in helpers)
        return ProcessMemory(anon, file, total, serving, sizes)

    def _each(self, exact: bool) -> dict[int, ProcessMemory]:
        pids, known = tuple(self._workers()), self._shared  # other threads replace it meanwhile
        self._shared = {pid: known[pid] for pid in pids if pid in known}
        found = {pid: self._read(pid, exact or pid not in self._shared) for pid in pids}
        return {pid: one for pid, one in found.items() if one is not None}

    def _read(self, pid: int, exact: bool) -> ProcessMemory | None:
        """None for a worker that has ended."""
        try:
            if self._platform == "darwin":
                return process.read_unique(pid)
            counted = process.read_counters(self._proc, str(pid))
            if not exact:
                return _less(counted, self._shared.get(pid, Shared()))
            real = process.read(self._proc, self._platform, str(pid))
        except (OSError, KeyError):  # a process that ends has no figures any more
            return None
        self._shared[pid] = Shared(counted.anon - real.anon, counted.file - real.file, counted.total - real.total)
        return real


def _less(counted: ProcessMemory, shared: Shared) -> ProcessMemory:
    anon, file = max(0, counted.anon - shared.anon), max(0, counted.file - shared.file)
    return ProcessMemory(anon, file, max(anon + file, counted.total - shared.total))
