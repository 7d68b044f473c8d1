"""A worker that has been taken over: a confined process tries whatever an attacker would, and tells how it ended.

    python -m support.takeover '{"kind": "engine", "home": …, "model": …, "states": …, "port": …}'

``kind``: "engine", "decoder", or "free" for a process that is not confined. ``without``: a layer that is lacking.
Prints a JSON object: the layers, and by attempt the errno, or 0 where the attempt succeeded.
"""

from __future__ import annotations

import ctypes
import errno
import json
import mmap
import os
import platform
import resource
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edgeserve.engine import ModelSpec
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.processes.allowed import engine_confinement
from edgeserve.processes.rights import decoder_confinement
from edgeserve.system import landlock, libc, seccomp, syscalls
from edgeserve.system.confinement import confine

CODE = Path(__file__).parents[2]
PTRACE_SEIZE, F_SETOWN, TIOCSTI = 0x4206, 8, 0x5412


def call(name: str, *arguments: int | bytes | None) -> int:
    number = syscalls.NUMBERS[name][list(syscalls.ARCHITECTURES).index(platform.machine())]
    assert number is not None
    return libc.system_call(number, *arguments)


def engine(given: Mapping[str, Any]) -> LlamaChat:
    options = {"prefix_cache_disk_mb": "auto", "prefix_cache_dir": given["states"]}
    spec = ModelSpec(
        "llm", "x", "edgeserve.engines.llama.chat:LlamaChat", {"model": Path(given["model"])}, "cpu", options=options
    )
    return LlamaChat(spec)


def useful(given: Mapping[str, Any]) -> dict[str, Callable[[], object]]:
    """Steps that every worker must be able to take."""

    def thread() -> None:
        one = threading.Thread(target=int)
        one.start()
        one.join()

    def shared_memory() -> None:
        descriptor = os.memfd_create("x")
        os.ftruncate(descriptor, 1 << 20)
        mmap.mmap(descriptor, 1 << 20)[:1] = b"x"

    def answer() -> None:
        with socket.socket(fileno=os.dup(given["own"])) as own:
            own.sendall(b"x")
            socket.send_fds(own, [b"x"], [os.memfd_create("y")])

    return {
        "answer": answer,
        "run a thread": thread,
        "share memory": shared_memory,
        "import late": lambda: __import__("zoneinfo").ZoneInfo("Europe/Vienna"),
        "read its status": lambda: Path("/proc/self/status").read_text(),
        "read the machine's memory": lambda: Path("/proc/meminfo").read_text(),
        "random numbers": lambda: Path("/dev/urandom").open("rb").read(1),
        "write to nothing": lambda: Path("/dev/null").write_text("x"),
        "signal itself": lambda: os.kill(os.getpid(), 0),
        "read its limits": lambda: resource.getrlimit(resource.RLIMIT_NOFILE),
    }


def of_an_engine(given: Mapping[str, Any]) -> dict[str, Callable[[], object]]:
    """Steps that the engine must be able to take, and no decoder."""
    state = Path(given["states"]) / ".shared" / "llm" / "one.state"
    other = state.parent.parent / "vision"
    return {
        "list states of all models": lambda: os.listdir(other),
        "make room for a state": lambda: (other / "three.state").unlink(),
        "read the model": lambda: Path(given["model"]).read_bytes(),
        "write a state": lambda: state.write_bytes(b"x"),
        "replace a state": lambda: state.replace(state.with_name("two.state")),
    }


def harmless(given: Mapping[str, Any]) -> dict[str, Callable[[], object]]:
    """Attempts that succeed in a free process and change nothing: they show that the attempts are real."""
    return {**on_files(given), **on_processes(given)}


def on_files(given: Mapping[str, Any]) -> dict[str, Callable[[], object]]:
    """Harmless attempts on files and folders."""
    home, parent = Path(given["home"]), os.getppid()
    states = Path(given["states"]) / ".shared"
    return {
        "read a file of the system": lambda: Path("/etc/passwd").read_text(),
        "read through its own root": lambda: Path("/proc/self/root/etc/passwd").read_text(),
        "read a key": lambda: (home / ".ssh" / "id").read_text(),
        "read a file beside the code": lambda: (CODE / "pyproject.toml").read_text(),
        "read a state of another model": lambda: (states / "vision" / "four.state").read_bytes(),
        "write a state of another model": lambda: (states / "vision" / "four.state").open("r+b"),
        "forge a state of another model": lambda: (states / "vision" / "five.state").write_bytes(b"x"),
        "give away a state": lambda: (states / "llm" / "own.state").rename(states / "vision" / "six.state"),
        "list the home": lambda: os.listdir(home),
        "list the root": lambda: os.listdir("/"),
        "list the model's folder": lambda: os.listdir(Path(given["model"]).parent),
        "read the parent's environment": lambda: Path(f"/proc/{parent}/environ").read_bytes(),
        "read the parent's map": lambda: Path(f"/proc/{parent}/maps").read_text(),
        "list all processes": lambda: os.listdir("/proc"),
        "write into the home": lambda: (home / "new").write_text("x"),
        "write to the key": lambda: (home / ".ssh" / "id").open("r+b"),
        "write beside the model": lambda: (Path(given["model"]).parent / "new").write_text("x"),
        "open the model to write": lambda: Path(given["model"]).open("r+b"),
        "make a link": lambda: os.symlink("/etc/passwd", home / "link"),
        "make a pipe": lambda: os.mkfifo(home / "pipe"),
        "make a folder": lambda: os.mkdir(home / "folder"),
        "change a mode": lambda: os.chmod(home, 0o700),
        "change a time": lambda: os.utime(home),
    }


def on_processes(given: Mapping[str, Any]) -> dict[str, Callable[[], object]]:
    """Harmless attempts on sockets, programs and other processes."""
    parent = os.getppid()

    def end(child: int) -> None:
        if child == 0:
            os._exit(0)
        os.waitpid(child, 0)

    return {
        "open a socket": lambda: socket.socket().close(),
        "open a local socket": lambda: socket.socket(socket.AF_UNIX).close(),
        "make a pair of sockets": socket.socketpair,
        "connect to a port": lambda: socket.create_connection(("127.0.0.1", given["port"])).close(),
        "use an open socket": lambda: socket.socket(fileno=given["socket"]).connect(("127.0.0.1", given["port"])),
        "run a program": lambda: subprocess.run(["/bin/true"], check=True),
        "spawn a program": lambda: end(os.posix_spawn("/bin/true", ["true"], {})),
        "fork": lambda: end(os.fork()),
        "reach the parent by a signal": lambda: os.kill(parent, 0),
        "reach its group by a signal": lambda: os.killpg(0, 0),
        "limit the parent": lambda: resource.prlimit(parent, resource.RLIMIT_CORE),
        "slow the parent down": lambda: os.setpriority(
            os.PRIO_PROCESS, parent, os.getpriority(os.PRIO_PROCESS, parent)
        ),
        "move the parent": lambda: os.sched_setaffinity(parent, os.sched_getaffinity(parent)),
        "outlive the server": lambda: libc.process_control(1, 0),
        "find shared memory": lambda: call("shmget", 0, 4096, 0o1600),
    }


def grave(given: Mapping[str, Any]) -> dict[str, Callable[[], object]]:
    """Attempts that a machine may refuse to everybody, or that would do harm."""
    parent, buffer = os.getppid(), ctypes.create_string_buffer(64)
    address = ctypes.addressof(buffer)
    return {
        "inspect semaphores": lambda: call("semctl", 0, 0, 2),
        "watch the home": lambda: call("inotify_add_watch", -1, os.fsencode(given["home"]), 2),
        "replace itself": lambda: os.execv("/bin/true", ["true"]),
        "trace the parent": lambda: call("ptrace", PTRACE_SEIZE, parent, 0, 0),
        "read the parent by a call": lambda: call("process_vm_readv", parent, address, 1, address, 1, 0),
        "hold the parent": lambda: call("pidfd_open", parent, 0),
        "end the parent": lambda: os.kill(parent, signal.SIGTERM),
        "end its thread": lambda: call("tkill", parent, signal.SIGTERM),
        "send signals by a file": lambda: __import__("fcntl").fcntl(0, F_SETOWN, parent),
        "type on the terminal": lambda: __import__("fcntl").ioctl(0, TIOCSTI, b"x"),
        "raise its limits": lambda: resource.setrlimit(resource.RLIMIT_CORE, (1 << 20, 1 << 20)),
        "leave the namespaces": lambda: call("unshare", 0x10000000),
        "mount": lambda: call("mount", b"none", b"/mnt", b"tmpfs", 0, None),
        "change the root": lambda: os.chroot("/"),
        "become another user": lambda: os.setuid(65534),
        "load a program into the kernel": lambda: call("bpf", 0, address, 64),
        "watch the processor": lambda: call("perf_event_open", address, 0, -1, -1, 0),
        "handle its own faults": lambda: call("userfaultfd", 0),
        "go around the filter": lambda: call("io_uring_setup", 4, address),
        "read keys of the kernel": lambda: call("keyctl", 0, -3, 0),
        "another personality": lambda: call("personality", 0x0040000),
        "truncate a file": lambda: os.truncate(Path(given["home"]) / ".ssh" / "id", 0),
        "truncate the model": lambda: os.open(given["model"], os.O_RDONLY | os.O_TRUNC),
        "a call of tomorrow": lambda: libc.system_call(syscalls.NEWEST + 1, 0, 0, 0),
    }


def destructive(given: Mapping[str, Any]) -> dict[str, Callable[[], object]]:
    """Attempts that harm, or that Yama refuses to everybody; of our layers, Landlock alone refuses them."""
    return {
        "read the parent's memory": lambda: Path(f"/proc/{os.getppid()}/mem").open("rb"),
        "remove the key": lambda: (Path(given["home"]) / ".ssh" / "id").unlink(),
        "remove the model": lambda: Path(given["model"]).unlink(),
    }


def ended(attempt: Callable[[], object]) -> int | str:
    try:
        attempt()
    except OSError as error:
        return error.errno or str(error)
    except ValueError as error:  # resource's word for a limit that may not be raised
        return str(error)
    return 0


def lack(*_: object, **__: object) -> int:
    raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))


def main(given: Mapping[str, Any]) -> None:
    layers: Mapping[str, str] = {}
    without = given.get("without", "")
    for module, name, layer in ((landlock, "restrict", "landlock"), (seccomp, "install", "seccomp")):
        if layer == without:
            setattr(module, name, lack)
    if given["kind"] != "free":
        wanted = engine_confinement(engine(given)) if given["kind"] == "engine" else decoder_confinement(1 << 31, 30)
        layers = confine(wanted).words
    kinds = [useful, of_an_engine, harmless]
    kinds += [grave] if "seccomp" not in without and layers else []
    kinds += [destructive] if "landlock" not in without and layers else []
    told = {kind.__name__: {name: ended(attempt) for name, attempt in kind(given).items()} for kind in kinds}
    print(json.dumps({"layers": layers, **told}))


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
