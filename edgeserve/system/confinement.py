"""The limits of a worker process: files, calls of the kernel, resources. Once on, nothing takes them off.

Four layers, each by itself. A kernel or container that lacks one costs this layer only, and ``Confined`` says so:

    no_new_privs  no program gives the process more rights
    rlimits       no core dump; bounds of open files, addresses, processor time, file size
    landlock      named files and folders only; no TCP; no signal to other processes
    seccomp       no program, no new process, no socket, no administration of the kernel
"""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from edgeserve.dataclass import dataclass
from edgeserve.system import landlock, libc, rlimits, seccomp
from edgeserve.system.bpf import Test

log = logging.getLogger("edgeserve.system")

PR_SET_NO_NEW_PRIVS, PR_GET_NO_NEW_PRIVS = 38, 39
OPEN_FILES = 256
LAYERS = ("no_new_privs", "rlimits", "landlock", "seccomp")
TASKS = Path("/proc/self/task")
NOT_LINUX = "only Linux has it"


@dataclass(frozen=True, slots=True)
class Confinement:
    """The rights that a process keeps.

    Fields:
        read           files, and folders with all below, to read and map
        write          folders to read and write; a missing one is made, for its owner only
        tidy           folders whose files it may list and remove, but not read; a missing one is made as well
        devices        nodes, and folders of nodes, to read, write and control
        accelerator    allow the calls that a GPU's driver needs, too
        listen         TCP port that other machines connect to; None: no sockets
        connect        TCP ports of other machines to connect to; none: no sockets. Not beside ``listen`` or a GPU
        open_files     most open descriptors
        address_bytes  most addresses in use; None: no bound. Mapped model files count
        data_bytes     most private bytes in use, as the kernel counts them; None: no bound
        cpu_seconds    seconds of processor time, after which the kernel ends the process; None: no bound
        file_bytes     largest size of a file or memfd; None: no bound. It holds for logs on stderr, too
    """

    read: tuple[Path, ...] = ()
    write: tuple[Path, ...] = ()
    tidy: tuple[Path, ...] = ()
    devices: tuple[Path, ...] = ()
    accelerator: bool = False
    listen: int | None = None
    connect: tuple[int, ...] = ()
    open_files: int = OPEN_FILES
    address_bytes: int | None = None
    data_bytes: int | None = None
    cpu_seconds: int | None = None
    file_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class Confined:
    """The layers that are on, with details, and those that are off, with the reason; by the names of ``LAYERS``."""

    on: Mapping[str, str]
    off: Mapping[str, str]

    @property
    def words(self) -> dict[str, str]:
        """One text a layer, in their order: "on, ABI 7" or "off: this kernel has no …"."""
        told = {name: f"on, {detail}" if detail else "on" for name, detail in self.on.items()}
        told |= {name: f"off: {reason}" for name, reason in self.off.items()}
        return {name: told[name] for name in LAYERS if name in told}


def confine(wanted: Confinement) -> Confined:
    """Give up all other rights, for good. Layers that cannot be had are left out and named in the result.

    On Linux call with one thread: a thread that runs already would keep its rights. Raises RuntimeError for more.
    """
    if sys.platform == "linux":  # elsewhere only limits are there, which hold for all threads
        _require_one_thread()
    for folder in (*wanted.tidy, *wanted.write):  # the former hold the latter
        _make(folder)
    layers = {
        "no_new_privs": _give_up_privileges,
        "rlimits": lambda: _limit(wanted),
        "landlock": lambda: f"ABI {_restrict(wanted)}",
        "seccomp": lambda: f"{seccomp.install(_calls(wanted))} instructions",
    }
    return _tried(layers)


def _restrict(wanted: Confinement) -> int:
    ports = () if wanted.listen is None else (wanted.listen,)
    paths = wanted.read, wanted.write, wanted.devices, wanted.tidy
    return landlock.restrict(*paths, listen=ports, connect=wanted.connect)


def _calls(wanted: Confinement) -> Mapping[str, Sequence[Test]]:
    """Calls that this process needs, and others do not."""
    if wanted.listen is not None:
        return seccomp.LISTENER
    if wanted.connect:
        return seccomp.CLIENT
    return seccomp.DRIVER if wanted.accelerator else seccomp.NOBODY


def available() -> dict[str, str]:
    """The layers that a worker can have on this machine, in the words of ``Confined``. Changes nothing."""
    return _tried(
        {
            "no_new_privs": _ask_privileges,
            "rlimits": str,
            "landlock": lambda: f"ABI {landlock.version()}",
            "seccomp": _ask_seccomp,
        }
    ).words


def _tried(layers: Mapping[str, Callable[[], str]]) -> Confined:
    """Take each layer; its result is the detail, its OSError the reason why it is off."""
    reasons: Mapping[str, Callable[[OSError], str]] = {"landlock": landlock.reason, "seccomp": seccomp.reason}
    on, off = {}, {}
    for name, layer in layers.items():
        if sys.platform != "linux" and name != "rlimits":
            off[name] = NOT_LINUX
            continue
        try:
            on[name] = layer()
        except OSError as error:
            off[name] = reasons.get(name, str)(error)
    return Confined(on, off)


def _require_one_thread() -> None:
    try:
        threads = len(os.listdir(TASKS))
    except OSError:  # no /proc here
        threads = threading.active_count()
    if threads != 1:
        raise RuntimeError(f"{threads} threads run; confine the process before it starts any")


def _make(folder: Path) -> None:
    """Make a folder that may be written. Where that fails, its user meets the same error, and reports it."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        log.warning("%s cannot be made, so that a worker has no such folder to write to: %s", folder, error)


def _give_up_privileges() -> str:
    libc.process_control(PR_SET_NO_NEW_PRIVS, 1)
    return ""


def _ask_privileges() -> str:
    libc.process_control(PR_GET_NO_NEW_PRIVS)
    return ""


def _ask_seccomp() -> str:
    seccomp.check()
    return ""


def _limit(wanted: Confinement) -> str:
    """Returns the limits in words."""
    limits = {"CORE": rlimits.NO_CORE, "NOFILE": wanted.open_files}
    bounds = {
        "AS": wanted.address_bytes,
        "DATA": wanted.data_bytes,
        "CPU": wanted.cpu_seconds,
        "FSIZE": wanted.file_bytes,
    }
    set_now = rlimits.lower(limits | {name: value for name, value in bounds.items() if value is not None})
    return ", ".join(f"{name} {value}" for name, value in set_now.items())
