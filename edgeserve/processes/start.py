"""The first steps of a fresh child: it drops everything that it inherited, ties its life to the server, runs its entry.

A forked child calls ``isolate`` and ``run``. A child that is a fresh interpreter begins at ``main``.
"""

from __future__ import annotations

import contextlib
import ctypes
import fcntl
import importlib
import json
import os
import signal
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import NoReturn

from edgeserve.dataclass import dataclass
from edgeserve.system import heap, libc, streams

IGNORED = frozenset({signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE, signal.SIGXFSZ})
"""Signals that a child ignores when its entry begins.

- INT, TERM, HUP: terminals and systemd send them to every process of the server; the server decides what ends. An
  entry that was asked to end sets SIGTERM to its default.
- PIPE, XFSZ: every Python process ignores them, and gets an OSError instead.
"""
UNBLOCKABLE = frozenset({signal.SIGKILL, signal.SIGSTOP})
PDEATHSIG, NAME = 1, 15
"""Operations of prctl(2)."""
OOM_STEP, OOM_FORKS, OOM_MOST = 500, 400, 1000
"""Steps of oom_score_adj above the server's, of a child and of a fork server, and the kernel's upper bound. So children
go first, and the server last."""
NAME_BYTES = 15
MESSAGE_BYTES = 128 << 10
"""Longest task. A socket of Linux queues about 200 KB; longer data goes through the child's own socket."""

Entry = Callable[[socket.socket, dict[str, object]], None]


@dataclass(frozen=True, slots=True)
class Task:
    """The work of one child. ``entry`` is "module:function"; ``arguments`` is JSON; ``name`` shows in ps."""

    entry: str
    arguments: dict[str, object]
    name: str

    def encode(self) -> bytes:
        """One line of JSON. Raises TypeError or ValueError for arguments that are not JSON, or too long."""
        line = json.dumps(asdict(self), allow_nan=False).encode() + b"\n"
        if len(line) > MESSAGE_BYTES:
            raise ValueError(f"the arguments of {self.name} take {len(line):,} bytes; at most {MESSAGE_BYTES:,}")
        return line

    @classmethod
    def decode(cls, line: bytes) -> Task:
        return cls(**json.loads(line))


def main(number: int, lifeline: int) -> NoReturn:
    """Begin a fresh interpreter's child: socket ``number`` for its entry, ``lifeline`` for its task.

    The lifeline's other end belongs to the server. The child dies when that end closes.
    """
    reset_signals()
    heap.tune()
    rope = socket.socket(fileno=lifeline)
    with rope.makefile("rb") as lines:
        line = lines.readline()
    if not line:  # the server ended first
        os._exit(1)
    task = Task.decode(line)
    die_with(rope)
    settle(task.name)
    run(task, _own(number))


def die_with(rope: socket.socket, platform: str = sys.platform) -> None:
    """End this process when the other end of ``rope`` closes, or anything comes from there.

    On Linux the kernel sends the signal (fcntl(2), F_SETSIG). That takes no thread, so that the process may confine
    itself, and needs no Python: code that never returns ends too. Elsewhere a thread waits.
    """
    if platform != "linux":
        threading.Thread(target=_wait_and_die, args=[rope], name="edgeserve-lifeline", daemon=True).start()
        return
    fcntl.fcntl(rope, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(rope, fcntl.F_SETSIG, signal.SIGKILL)
    fcntl.fcntl(rope, fcntl.F_SETFL, fcntl.fcntl(rope, fcntl.F_GETFL) | fcntl.FASYNC)
    rope.setblocking(False)
    with contextlib.suppress(BlockingIOError):  # nothing has come: the server lives
        _wait_and_die(rope)


def _wait_and_die(rope: socket.socket) -> None:
    # The server writes nothing more, so that any return is the end of its life.
    with contextlib.suppress(ConnectionError):
        rope.recv(1)
    os.kill(os.getpid(), signal.SIGKILL)


def isolate(task: Task, number: int, parent: int) -> socket.socket:
    """Make a forked child independent of process ``parent``; returns its socket, descriptor ``number``.

    The child keeps descriptors 0, 1, 2 and ``number``. The kernel kills the child when ``parent`` ends.
    """
    reset_signals()
    close_all_but({0, 1, 2, number})
    libc.library().prctl(PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it ended before the kernel knew
        os.kill(os.getpid(), signal.SIGKILL)
    settle(task.name, OOM_STEP - OOM_FORKS)  # beside the step that the fork server has taken
    reseed()
    return _own(number)


def settle(name: str, oom_step: int = OOM_STEP) -> None:
    """Name this process, and let the kernel prefer it to the server when memory is out."""
    set_title(f"edgeserve: {name}")
    raise_oom_score(oom_step)


def run(task: Task, sock: socket.socket) -> NoReturn:
    """Run the entry and end the process: code 0, the code of a SystemExit, or 1 and a traceback on stderr.

    Threads that the entry left behind end at once. No handler of ``atexit`` runs.
    """
    code = 1
    try:
        module, _, function = task.entry.partition(":")
        with heap.uncollected():
            entry: Entry = getattr(importlib.import_module(module), function)
        entry(sock, task.arguments)
        code = 0
    except SystemExit as wish:
        code = wish.code if isinstance(wish.code, int) else int(wish.code is not None)
    except BaseException:
        sys.excepthook(*sys.exc_info())
    finally:
        streams.finish()
        os._exit(code)


def _own(number: int) -> socket.socket:
    sock = socket.socket(fileno=number)
    sock.set_inheritable(False)
    return sock


def reset_signals() -> None:
    """Ignore ``IGNORED``, set all other signals to their defaults, and block none."""
    signal.set_wakeup_fd(-1)
    for number in signal.valid_signals() - UNBLOCKABLE:
        signal.signal(number, signal.SIG_IGN if number in IGNORED else signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def close_all_but(kept: Iterable[int]) -> None:
    """Linux: close every descriptor that is not ``kept``."""
    for number in {int(name) for name in os.listdir("/proc/self/fd")} - set(kept):
        with contextlib.suppress(OSError):  # the listing's own descriptor is closed already
            os.close(number)


def reseed() -> None:
    """Give this process random numbers of its own. ``random`` does so itself after a fork; NumPy does not."""
    if (generator := sys.modules.get("numpy.random")) is not None:
        generator.seed()


def raise_oom_score(step: int, path: str = "/proc/self/oom_score_adj") -> bool:
    """Linux: make this process a likelier victim of the OOM killer than the server. False where that is impossible."""
    try:
        with open(path, "r+b") as file:
            score = min(OOM_MOST, int(file.read()) + step)
            file.seek(0)
            file.write(str(score).encode())
    except OSError:  # not Linux, or a sandbox whose /proc cannot be written
        return False
    return True


def set_title(title: str) -> None:
    """Linux: show ``title`` as the name and the command line of this process, as far as there is room."""
    if not sys.platform.startswith("linux"):
        return
    data = title.replace("\0", " ").encode(errors="replace")
    libc.library().prctl(NAME, ctypes.c_char_p(data[:NAME_BYTES]))
    start, end = _command_line()
    if start and end > start:
        size = end - start
        ctypes.memmove(start, data[: size - 1].ljust(size, b"\0"), size)


def _command_line() -> tuple[int, int]:
    """Addresses of the command line in this process; zeros where the kernel hides them."""
    with open("/proc/self/stat", "rb") as file:
        fields = file.read().rpartition(b")")[2].split()
    # Fields 48 and 49 of proc(5); field 3 is the first after the name.
    return (int(fields[45]), int(fields[46])) if len(fields) > 46 else (0, 0)
