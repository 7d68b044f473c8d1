"""The server under chaos: its folder, its small disk, its control group, its processes and its log."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from benchmarks import control_group
from benchmarks.chaos import clock
from benchmarks.chaos.asks import Asks
from benchmarks.chaos.live import Sound
from benchmarks.control_group import Group, NotPermittedHere
from benchmarks.process import ServerProcess, free_port, running

from edgeserve.units import MB

MARK = "EDGESERVE_CHAOS"
"""A variable whose value only the processes of one run have, wherever they went."""
DISK_MB = 8
TITLE = "edgeserve: "
DISK = "disk"
"""Folder of temporary files, saved states and learned peaks, on a file system of its own."""
STATES = "states"
"""Folder of saved conversations there: a cache with a limit of its own, and no leftover."""
FORKS = "forks"


@dataclass(frozen=True, slots=True)
class Form:
    """The part of a run that depends on its models.

    Fields:
        name     in words
        command  of the server, without its port, which comes last
        models   folder of its models; None where its command knows it
        jobs     engines that it serves
        files    a model file of each job that may be cut and replaced
        sharing  all jobs that use a job's file, where it is not that job alone
        asks     requests of the clients
        abort    a word at which the chat engine aborts; "" where none does
        live     sound of a live transcription
        limit    seconds within which each request must end
        config   the server's models.toml; None where it has none
    """

    name: str
    command: Sequence[str]
    models: Path | None
    jobs: Sequence[str]
    files: Mapping[str, Path]
    sharing: Mapping[str, Sequence[str]]
    asks: Asks
    live: Sound
    abort: str
    limit: float
    config: Path | None = None


@dataclass(slots=True)
class House:
    """A running server. ``group`` and ``disk``: None where this machine permits none; ``lacking`` says why."""

    folder: Path
    form: Form
    server: ServerProcess
    token: str
    group: Group | None
    disk: Path | None
    lacking: dict[str, str] = field(default_factory=dict)

    @property
    def clock(self) -> Path:
        """The seconds by which the server's wall clock goes wrong (``benchmarks.chaos.clock``)."""
        return self.folder / "clock"

    @property
    def log(self) -> Path:
        return self.folder / "server.log"

    def family(self) -> list[psutil.Process]:
        """The processes below the server: the fork server and the workers."""
        return psutil.Process(self.server.pid).children(recursive=True)

    def named(self) -> dict[str, list[int]]:
        """Pids of the living ones by their names: jobs, FORKS, and those of short-lived children."""
        found: dict[str, list[int]] = {}
        for one in self.family():
            with contextlib.suppress(psutil.NoSuchProcess):
                title = " ".join(one.cmdline()).strip("\0 ")
                if title.startswith(TITLE) and one.status() != psutil.STATUS_ZOMBIE:
                    found.setdefault(title.removeprefix(TITLE), []).append(one.pid)
        return found

    def marked(self) -> list[int]:
        """All processes of this run, orphans and zombies of its family included."""
        mark = f"{MARK}={self.token}".encode()
        found = []
        for path in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if mark in (path / "environ").read_bytes().split(b"\0"):
                    found.append(int(path.name))
        return found


@contextlib.contextmanager
def house(folder: Path, form: Form) -> Iterator[House]:
    """Start the server of this form, in a control group and on a disk of its own where the machine permits."""
    lacking: dict[str, str] = {}
    token = f"{os.getpid()}-{folder.name}"
    disk = folder / DISK
    (disk / "tmp").mkdir(parents=True)
    with contextlib.ExitStack() as stack:
        group = None
        try:
            group = stack.enter_context(control_group.group("edgeserve-chaos"))
        except NotPermittedHere as error:
            lacking["limit"] = lacking["neighbour"] = str(error)
        if form.config is None:
            lacking["reload"] = "these engines have no file of settings"
        models = form.models or folder
        (disk / "models").symlink_to(models)
        mounting, why = _mounting(disk, models)
        if why:
            lacking["full disk"] = why
        launcher = [*(group.launcher if group else ()), *mounting, *_logging(folder / "server.log")]
        environ = {MARK: token, "TMPDIR": str(disk / "tmp"), "EDGESERVE_MODELS_DIR": str(disk / "models")}
        environ[clock.VARIABLE] = str(folder / "clock")
        (folder / "clock").write_text("0")
        port = free_port()
        server = stack.enter_context(running([*launcher, *form.command, str(port)], port, environ))
        yield House(folder, form, server, token, group, None if why else disk, lacking)


def _mounting(disk: Path, models: Path) -> tuple[Sequence[str], str]:
    """A launcher that gives its command a small disk of its own at ``disk``, which ends with the command's processes.
    Empty with the reason where that is not permitted."""
    made = 'mkdir "$0/tmp" && ln -s "$1" "$0/models" && shift'
    script = f'mount -t tmpfs -o size={DISK_MB}m chaos "$0" && {made} && exec "$@"'
    if shutil.which("unshare") is None:
        return (), "there is no unshare(1) here"
    launcher = ("unshare", "--mount", "--propagation", "private", "sh", "-c", script, str(disk), str(models))
    tried = subprocess.run([*launcher, "true"], capture_output=True, text=True)
    return ((), tried.stderr.strip()) if tried.returncode else (launcher, "")


def _logging(log: Path) -> Sequence[str]:
    return ("sh", "-c", 'exec "$@" 2>>"$0"', str(log))


def inside(house: House) -> Path:
    """The server's disk as seen from here: it lies in the server's own mount namespace."""
    return Path(f"/proc/{house.server.pid}/root{house.disk}")


def fill(place: Path) -> int:
    """Write a file until the disk is full; returns its bytes."""
    size = 0
    with place.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            size += file.write(b"\1" * (MB >> 6))
    return size
