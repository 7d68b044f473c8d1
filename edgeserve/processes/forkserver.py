"""The fork server's own program: one thread that forks children, signals them, reaps them and reports their exit codes.

The server starts it as a fresh interpreter, so it holds nothing of the server. All sockets keep message boundaries:

    control   first ``{"preload": [module, …]}``, answered by ``{"failed": {module: error}, "threads": n}``;
              then a ``Task`` a message, with two descriptors: the child's socket and a status socket.
              Its end ends the fork server and kills all children.
    status    to the server ``{"pid": n}`` or ``{"errno": n}``, later ``{"exit": code}``, then the end;
              from the server one byte a signal. Its end kills the child.

A signal goes through the parent of its child, so it never reaches a stranger who got the pid later.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import json
import os
import select
import signal
import socket
import sys
from collections.abc import Iterator, Sequence
from typing import NoReturn

from edgeserve.dataclass import dataclass, make_all
from edgeserve.processes import start
from edgeserve.processes.start import MESSAGE_BYTES, Task
from edgeserve.system import heap

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
"""Variables that keep libraries from starting threads at import: a fork copies the calling thread alone."""


@dataclass(frozen=True, slots=True)
class Duty:
    """A task in the child that must do it. ``socket`` is a descriptor."""

    task: Task
    socket: int
    parent: int


def main(number: int) -> NoReturn:
    """Serve the control socket ``number`` to its end. Each child leaves the loop with its duty, then does it."""
    start.reset_signals()
    control = socket.socket(fileno=number)
    start.settle("forks", start.OOM_FORKS)
    heap.tune()
    first = control.recv(MESSAGE_BYTES)
    if not first:  # the server ended first
        os._exit(0)
    failed = preload(json.loads(first)["preload"])
    make_all()
    heap.collect()
    gc.freeze()  # a collection in a child would write to, and so copy, every page of objects
    _tell(control, {"failed": failed, "threads": len(os.listdir("/proc/self/task"))})
    if duty := ForkServer(control).run():
        start.run(duty.task, start.isolate(duty.task, duty.socket, duty.parent))
    os._exit(0)


def preload(modules: Sequence[str]) -> dict[str, str]:
    """Import modules for all children; returns the error of each that failed. A child meets the error itself."""
    failed: dict[str, str] = {}
    with _environment(ONE_THREAD):
        for module in modules:
            try:
                importlib.import_module(module)
            except Exception as error:
                failed[module] = f"{type(error).__name__}: {error}"
    sys.stdout.flush()  # else each child would print what a module left in the buffer
    sys.stderr.flush()
    return failed


@contextlib.contextmanager
def _environment(added: dict[str, str]) -> Iterator[None]:
    """Variables that hold meanwhile, unless the user has set them."""
    fresh = {name: value for name, value in added.items() if name not in os.environ}
    os.environ.update(fresh)
    yield
    for name in fresh:
        del os.environ[name]


class ForkServer:
    """The loop over one control socket."""

    def __init__(self, control: socket.socket) -> None:
        self._control = control
        self._running: dict[int, socket.socket] = {}
        """Status sockets by pid; a child stays until it is reaped."""
        self._pids: dict[int, int] = {}
        """Pids by the descriptor of the status socket."""
        self._woken, self._waker = socket.socketpair()
        self._poll = select.poll()

    def run(self) -> Duty | None:
        """Serve to the end of the control socket. In a forked child: returns its duty at once."""
        for end in (self._woken, self._waker):
            end.setblocking(False)
        signal.signal(signal.SIGCHLD, lambda number, frame: None)  # the wake-up descriptor wants a handler
        signal.set_wakeup_fd(self._waker.fileno(), warn_on_full_buffer=False)
        for sock in (self._control, self._woken):
            self._poll.register(sock, select.POLLIN)
        while True:
            for number, _ in self._poll.poll():
                if number == self._woken.fileno():
                    self._woken.recv(4096)
                    self._reap()
                elif number != self._control.fileno():
                    self._pass_signals(number)
                else:
                    data, numbers = self._order()
                    if not data:
                        self._end()
                        return None
                    if duty := self._fork(data, numbers):
                        return duty

    def _order(self) -> tuple[bytes, Sequence[int]]:
        """The next message of the server and its descriptors; empty once the server has gone."""
        try:
            data, numbers, _, _ = socket.recv_fds(self._control, MESSAGE_BYTES, 2, socket.MSG_CMSG_CLOEXEC)
        except ConnectionResetError:  # it was killed with a message of ours unread
            return b"", ()
        return data, numbers

    def _fork(self, data: bytes, numbers: Sequence[int]) -> Duty | None:
        if len(numbers) != 2:  # no descriptor was free; the kernel closed the status socket, and so the server knows
            for one in numbers:
                os.close(one)
            return None
        number, far = numbers
        task, status, parent = Task.decode(data), socket.socket(fileno=far), os.getpid()
        try:
            pid = os.fork()
        except OSError as error:
            _tell(status, {"errno": error.errno})
            status.close()
            os.close(number)
            return None
        if pid == 0:
            status.close()
            self._forget()
            return Duty(task, number, parent)
        os.close(number)
        _tell(status, {"pid": pid})
        self._running[pid] = status
        self._pids[far] = pid
        self._poll.register(far, select.POLLIN)
        return None

    def _forget(self) -> None:
        """Close all sockets. A child does so before others get their numbers."""
        signal.set_wakeup_fd(-1)
        for sock in (self._control, self._woken, self._waker, *self._running.values()):
            sock.close()

    def _pass_signals(self, number: int) -> None:
        """Send its child the signals that the server wrote. ``number`` may have ended within this round of the poll."""
        pid = self._pids.get(number)
        if pid is None:
            return
        try:
            wanted = self._running[pid].recv(64, socket.MSG_DONTWAIT)
        except BlockingIOError:  # a new child got the number of one that ended within this round
            return
        except ConnectionError:
            wanted = b""
        for one in wanted or [signal.SIGKILL]:
            os.kill(pid, one)
        if not wanted:  # nobody holds the child any more; its socket would stay readable for ever
            self._poll.unregister(number)
            del self._pids[number]

    def _reap(self) -> None:
        while self._running:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                return
            self._bury(pid, status)

    def _bury(self, pid: int, status: int) -> None:
        sock = self._running.pop(pid, None)
        if sock is None:  # an import started it
            return
        if self._pids.pop(sock.fileno(), None):
            self._poll.unregister(sock)
        _tell(sock, {"exit": os.waitstatus_to_exitcode(status)})
        sock.close()

    def _end(self) -> None:
        for pid in self._running:
            os.kill(pid, signal.SIGKILL)
        while self._running:
            self._bury(*os.waitpid(-1, 0))
        self._forget()


def _tell(sock: socket.socket, message: dict[str, object]) -> None:
    try:
        sock.send(json.dumps(message).encode())
    except OSError as error:  # the server has closed its end, or is gone: its end shows in the next poll
        if error.errno not in {errno.EPIPE, errno.ECONNRESET}:
            raise
