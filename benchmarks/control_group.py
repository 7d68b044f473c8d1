"""A memory control group of our own, in version 1 or 2, whichever this machine has and permits."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgeserve.system import cgroup

MB = 1 << 20
PROC, ROOT = Path("/proc"), Path("/sys/fs/cgroup")
ENDING_SECONDS = 10.0


class NotPermittedHere(Exception):
    """No control group can be made on this machine; says why."""


@dataclass(frozen=True, slots=True)
class Files:
    """File names of one version. ``rows`` of memory.stat: anonymous pages and page cache, children included."""

    number: int
    limit: str
    swap: str
    usage: str
    kills: str
    rows: tuple[str, str]


V1 = Files(
    1,
    "memory.limit_in_bytes",
    "memory.memsw.limit_in_bytes",
    "memory.usage_in_bytes",
    "memory.oom_control",
    ("total_rss", "total_cache"),
)
V2 = Files(2, "memory.max", "memory.swap.max", "memory.current", "memory.events", ("anon", "file"))


@dataclass(frozen=True, slots=True)
class Group:
    """Bytes. Its processes are ours, and end with it."""

    folder: Path
    files: Files

    @property
    def launcher(self) -> Sequence[str]:
        """Put before a command: it runs inside from its first instruction on."""
        return ("sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs"))

    def limit(self, size: int) -> None:
        """At most so much, without swap. Raises NotPermittedHere."""
        swap = self.folder / self.files.swap
        if not swap.exists() and _has_swap():
            raise NotPermittedHere(f"{swap} does not exist: this kernel does not count swap, and the machine has some")
        self._write(self.files.limit, size)
        if swap.exists():
            # Version 1 counts memory and swap together, version 2 swap alone.
            self._write(self.files.swap, size if self.files.number == 1 else 0)

    def lift(self) -> None:
        """No limit any more. Raises NotPermittedHere."""
        none = "-1" if self.files.number == 1 else "max"
        if (self.folder / self.files.swap).exists():
            self._write(self.files.swap, none)  # first: version 1 keeps it above the other
        self._write(self.files.limit, none)

    def usage(self) -> int:
        return int((self.folder / self.files.usage).read_text(encoding="ascii"))

    def parts(self) -> tuple[int, int]:
        """Anonymous pages, and page cache that is charged to the group."""
        rows = self._rows("memory.stat")
        anonymous, cache = self.files.rows
        return rows[anonymous], rows[cache]

    def kills(self) -> int:
        """Processes that the kernel killed here for want of memory."""
        return self._rows(self.files.kills)["oom_kill"]

    def remove(self) -> None:
        """Kill whatever is still inside and remove the group. Raises OSError when it cannot be removed."""
        deadline = time.monotonic() + ENDING_SECONDS
        while True:
            for pid in (self.folder / "cgroup.procs").read_text(encoding="ascii").split():
                with contextlib.suppress(ProcessLookupError):
                    os.kill(int(pid), signal.SIGKILL)
            try:
                self.folder.rmdir()
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            else:
                return

    def _rows(self, name: str) -> Mapping[str, int]:
        text = (self.folder / name).read_text(encoding="ascii")
        return {key: int(value) for key, value in (line.split() for line in text.splitlines())}

    def _write(self, name: str, value: int | str) -> None:
        try:
            (self.folder / name).write_text(str(value), encoding="ascii")
        except OSError as error:
            raise NotPermittedHere(f"{self.folder / name} cannot be set to {value}: {error.strerror}") from None


@contextlib.contextmanager
def group(name: str, proc: Path = PROC, root: Path = ROOT) -> Iterator[Group]:
    """A new group under this process's own, removed at the end of the block. Raises NotPermittedHere."""
    made = _make(f"{name}-{os.getpid()}", proc, root)
    try:
        yield made
    finally:
        made.remove()


def _make(name: str, proc: Path, root: Path) -> Group:
    """In the nearest folder above us that lets us count and limit memory in a group of its own."""
    reasons = []
    for parent, version in cgroup.folders(proc, root):
        files = V1 if version is cgroup.V1 else V2
        folder = parent / name
        if files is V2 and "memory" not in _words(parent / "cgroup.subtree_control"):
            reasons.append(f"{parent} does not hand the memory controller on")
            continue
        try:
            folder.mkdir()
        except OSError as error:
            reasons.append(f"{folder}: {error.strerror}")
            continue
        made = Group(folder, files)
        entered = subprocess.run([*made.launcher, "true"], capture_output=True, text=True)
        if entered.returncode == 0:
            return made
        made.remove()
        reasons.append(f"{folder} takes no process: {entered.stderr.strip()}")
    raise NotPermittedHere("; ".join(reasons) or f"there is no memory control group under {root}")


def _words(path: Path) -> list[str]:
    try:
        return path.read_text(encoding="ascii").split()
    except OSError:
        return []


def _has_swap() -> bool:
    return len(Path("/proc/swaps").read_text(encoding="ascii").splitlines()) > 1
