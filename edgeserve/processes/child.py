"""One child process: its pid, its socket, its exit code, and the steps that stop it."""

from __future__ import annotations

import contextlib
import json
import logging
import select
import signal
import socket
import subprocess
import threading
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import Protocol

from edgeserve.processes.closing import Closing

log = logging.getLogger("edgeserve.processes")

STOP_SECONDS, TERM_SECONDS, KILL_SECONDS = 5.0, 2.0, 10.0
"""Time that a child has to end after it was asked, after SIGTERM, and after SIGKILL."""
LONGEST_SECONDS = 1e6
"""Longest wait of one poll; its milliseconds are an int in C."""


def pair(ours: ExitStack, theirs: ExitStack, kind: int = socket.SOCK_STREAM) -> tuple[socket.socket, socket.socket]:
    """A socket for this process and one for a child; each stack closes its own. Raises OSError."""
    one, other = socket.socketpair(socket.AF_UNIX, kind)
    return ours.enter_context(one), theirs.enter_context(other)


class Process(Protocol):
    """A process that somebody reaps. Any thread may call it."""

    @property
    def pid(self) -> int: ...

    def wait(self, seconds: float | None) -> int | None:
        """The exit code, negative for a signal; None while it runs after ``seconds``. None: no limit."""
        ...

    def send(self, number: int) -> None:
        """Send a signal. Nothing happens once the process has ended."""
        ...

    def close(self) -> None:
        """Close the descriptors of an ended process."""
        ...


class Child(Closing):
    """A child and the server's end of its socket pair. Any thread may call it.

    Whoever launched the child closes it. As a context manager it closes itself.
    """

    def __init__(self, process: Process, sock: socket.socket, name: str) -> None:
        self._process = process
        self._on_close: Callable[[], None] | None = None
        self.socket = sock
        self.name = name
        self.client: tuple[str, ...] | None = None
        """The client whose file it reads; None for work on what is the server's own."""

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit(self) -> int | None:
        """The exit code, negative for a signal; None while the child runs."""
        return self._process.wait(0)

    def wait(self, seconds: float | None = None) -> int | None:
        """The exit code as ``exit`` gives it. Blocks until the child is reaped, at most ``seconds``."""
        return self._process.wait(seconds)

    def signal(self, number: int) -> None:
        """Send a signal. Nothing happens once the child has ended."""
        self._process.send(number)

    def stop(self, seconds: float = STOP_SECONDS, term_seconds: float = TERM_SECONDS) -> int | None:
        """End a child whose caller has asked it to end; returns its exit code. Blocks.

        1. Wait ``seconds``.
        2. Send SIGTERM, and SIGCONT because a stopped process takes no SIGTERM. Wait ``term_seconds``.
        3. Send SIGKILL and wait until the child is reaped. None when the kernel does not end it in KILL_SECONDS.
        """
        if (code := self.wait(seconds)) is not None:
            return code
        self.signal(signal.SIGTERM)
        self.signal(signal.SIGCONT)
        if (code := self.wait(term_seconds)) is not None:
            return code
        return self.kill()

    def kill(self) -> int | None:
        """Send SIGKILL and wait until the child is reaped; the third step of ``stop``."""
        self.signal(signal.SIGKILL)
        if (code := self.wait(KILL_SECONDS)) is None:
            log.error(
                "%s (pid %d) is not gone %g s after SIGKILL: a device or a file system holds it in the kernel",
                *(self.name, self.pid, KILL_SECONDS),
            )
        return code

    def close(self) -> None:
        """Kill the child if it still runs, and close its descriptors."""
        if self.exit is None:
            self.kill()
        self.socket.close()
        self._process.close()
        call, self._on_close = self._on_close, None
        if call is not None:
            call()

    def on_close(self, call: Callable[[], None]) -> None:
        """Call this once, when the child is closed."""
        self._on_close = call


class Children:
    """The children that somebody holds. Any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: weakref.WeakSet[Child] = weakref.WeakSet()

    def add(self, child: Child) -> Child:
        with self._lock:
            self._held.add(child)
        return child

    def running(self) -> list[Child]:
        with self._lock:
            held = list(self._held)
        return [child for child in held if child.exit is None]

    def pids(self) -> list[int]:
        """Pids of those that run."""
        return [child.pid for child in self.running()]


class Parent(Protocol):
    """The fork server of a child. Any thread may call it."""

    def wake(self) -> None:
        """Let the fork server continue, if somebody has stopped it."""
        ...

    def leave(self, pid: int) -> None:
        """Note that the fork server died before this child."""
        ...


class Forked:
    """A child of the fork server, known by its status socket (``forkserver``)."""

    def __init__(self, pid: int, status: socket.socket, parent: Parent) -> None:
        self.pid = pid
        self._status = status
        self._parent = parent
        self._exit: int | None = None
        self._lock = threading.Lock()
        self._waiters = 0
        self._closed = False

    def wait(self, seconds: float | None) -> int | None:
        with self._lock:
            if self._exit is not None or self._closed:
                return self._exit
            self._waiters += 1
            poll = select.poll()
            poll.register(self._status, select.POLLIN)
        readable: object = False
        try:
            readable = poll.poll(None if seconds is None else max(0, min(seconds, LONGEST_SECONDS)) * 1000)
        finally:
            with self._lock:
                self._leave(bool(readable))
        return self._exit

    def _leave(self, readable: bool) -> None:
        self._waiters -= 1
        if readable and self._exit is None:
            self._exit = self._read()
        if self._closed and not self._waiters:
            self._status.close()

    def _read(self) -> int:
        """The exit code. The end without one means that the fork server died, and the kernel killed its children."""
        data = b""
        for _ in range(2):  # a signal that nobody read makes the first call an error; the second has what was told
            with contextlib.suppress(ConnectionError):
                data = self._status.recv(4096)
                break
        if data:
            return int(json.loads(data)["exit"])
        self._parent.leave(self.pid)
        return -signal.SIGKILL

    def send(self, number: int) -> None:
        with self._lock:
            if self._exit is not None or self._closed:
                return
            try:
                self._status.send(bytes([number]))
            except ConnectionError:  # the child has ended; ``wait`` reads how
                return
        self._parent.wake()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            if not self._waiters:  # the last waiter closes it: nobody polls a number that others may get
                self._status.close()


class Spawned:
    """A child of this process. ``lifeline``: the socket whose end kills the child."""

    def __init__(self, process: subprocess.Popen[bytes], lifeline: socket.socket) -> None:
        self._process = process
        self._lifeline = lifeline

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait(self, seconds: float | None) -> int | None:
        if seconds == 0:
            return self._process.poll()
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None

    def send(self, number: int) -> None:
        self._process.send_signal(number)

    def close(self) -> None:
        self._lifeline.close()


def described(code: int) -> str:
    """An exit code in words: "exit code 1", "SIGKILL"."""
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:  # a real-time signal
        return f"signal {-code}"


def ended(code: int | None) -> str:
    """The end of a child, as the end of a sentence about it."""
    if code is None:
        return "has gone, and nobody knows why"
    if code >= 0:
        return f"ended with code {code}"
    told = " (most likely the system ran out of memory)" if -code == signal.SIGKILL else ""
    return f"was ended by {described(code)}{told}"
