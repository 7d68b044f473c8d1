"""Looks at the server from outside: its health all the time, and all that it holds when it rests."""

from __future__ import annotations

import contextlib
import http.client
import os
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil
from benchmarks.chaos import house
from benchmarks.chaos.house import House
from benchmarks.chaos.pulse import PATIENCE
from benchmarks.process import Memory, memory_of
from benchmarks.sampling import NONE

FORK_SERVERS = 3
"""Most of them: for workers, sound and pictures."""
POOLS = 6
"""Threads that the server's pools may still start: the pools grow to their bounds, and never shrink."""
REST_SECONDS = 100.0
"""Longest wait for a server to rest: the fork server of decoders stays for a minute."""


def memory(one: House) -> Memory:
    """The sum over all processes below the server, MB."""
    total = NONE
    for process in one.family():
        with contextlib.suppress(ProcessLookupError, PermissionError, OSError, KeyError):
            total += memory_of(process.pid)
    return total


@dataclass(frozen=True, slots=True)
class Rest:
    """All that a server holds when every engine is cold.

    Fork servers stand apart: each ends after a minute without work. ``memory`` (MB), ``descriptors`` and ``threads``
    are those of all other processes. ``strangers``: processes of this run that have left the server's family.
    """

    memory: float
    descriptors: Mapping[str, int]
    threads: Mapping[str, int]
    memfds: int
    processes: tuple[str, ...]
    zombies: int
    strangers: int
    files: tuple[str, ...]
    forks: int = 0

    @property
    def alone(self) -> bool:
        """Whether the server has no child beside fork servers."""
        return self.processes == ("server",)

    def more_than(self, before: Rest, allowed_mb: float) -> list[str]:
        """Everything held beyond ``before``, each in one line."""
        found = [*_grown("descriptors", self.descriptors, before.descriptors)]
        found += _grown("threads", self.threads, before.threads, POOLS)
        found += [f"{getattr(self, what)} {what}" for what in ("memfds", "zombies", "strangers") if getattr(self, what)]
        if self.processes != before.processes:
            found.append(f"processes {self.processes} instead of {before.processes}")
        if self.forks > FORK_SERVERS:
            found.append(f"{self.forks} fork servers; {FORK_SERVERS} may be there")
        if new := set(self.files) - set(before.files):
            found.append(f"files {sorted(new)}")
        if self.memory > before.memory + allowed_mb:
            found.append(f"{self.memory - before.memory:.1f} MB more ({self.memory:.1f}; allowed {allowed_mb:.1f})")
        return found


def _grown(what: str, now: Mapping[str, int], before: Mapping[str, int], spare: int = 0) -> Iterator[str]:
    for name, count in now.items():
        if (more := count - before.get(name, 0)) > spare:
            yield f"{more} more {what} of {name} ({count})"


def rest(one: House, enough: Callable[[Rest], bool], seconds: float = REST_SECONDS) -> Rest:
    """Let every engine go cold, and wait until what is left is ``enough`` or the time is over; returns what is left."""
    until = time.monotonic() + seconds
    while True:
        cool(one, until)
        found = _holding(one)
        if enough(found) or time.monotonic() > until:
            return found
        time.sleep(0.5)


def cool(one: House, until: float) -> None:
    """Ask every engine down until all are cold. Raises TimeoutError, and RuntimeError for an answer that is no wait."""
    for job in one.form.jobs:
        while (status := _post(one.server.port, f"/memory/evict/{job}")) != 200:
            if status not in (503, 409):
                raise RuntimeError(f"the engine {job} could not be evicted: {status}")
            if time.monotonic() > until:
                raise TimeoutError(f"{job} is still held")
            time.sleep(0.1)
    _post(one.server.port, "/memory/defragment")


def _post(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("POST", path)
        answer = connection.getresponse()
        answer.read()
        return answer.status


def _holding(one: House) -> Rest:
    named = {"server": [one.server.pid]} | one.named()
    forks = named.pop(house.FORKS, [])
    family = [psutil.Process(one.server.pid), *one.family()]
    descriptors, memfds = {}, 0
    for name, pids in named.items():
        links = [_link(path) for pid in pids for path in _listed(Path(f"/proc/{pid}/fd"))]
        descriptors[name] = len(links)
        memfds += sum("memfd:" in link for link in links)
    zombies = sum(map(_is_zombie, family))
    known = {process.pid for process in family}
    return Rest(
        memory=memory_of(one.server.pid).pss + memory(one).pss - sum(_pss(pid) for pid in forks),
        descriptors=descriptors,
        threads={name: sum(len(_listed(Path(f"/proc/{pid}/task"))) for pid in pids) for name, pids in named.items()},
        memfds=memfds,
        processes=tuple(sorted(name for name, pids in named.items() for _ in pids)),
        zombies=zombies,
        strangers=len(set(one.marked()) - known),
        files=_files(one),
        forks=len(forks),
    )


def _pss(pid: int) -> float:
    try:
        return memory_of(pid).pss
    except (ProcessLookupError, OSError, KeyError):  # it has just ended
        return 0.0


def _is_zombie(process: psutil.Process) -> bool:
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def _listed(folder: Path) -> list[Path]:
    try:
        return list(folder.iterdir())
    except FileNotFoundError:  # the process has just ended
        return []


def _link(path: Path) -> str:
    try:
        return os.readlink(path)
    except FileNotFoundError:
        return ""


def _files(one: House) -> tuple[str, ...]:
    """Files on the server's disk and beside the models. Shared memory has no name on Linux: ``memfds`` counts it."""
    disk = house.inside(one) if one.disk else one.folder / house.DISK
    places = {disk, *(path.parent for path in one.form.files.values())}
    found = {path for place in places for path in place.rglob("*") if path.is_file() and house.STATES not in path.parts}
    return tuple(sorted(map(str, found)))
