"""A launcher whose children are forks of a small process that has imported what they share. Linux only."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import signal
import socket
import subprocess
import threading
from collections.abc import Sequence
from contextlib import ExitStack

from edgeserve.errors import EngineFailure, ShuttingDown
from edgeserve.processes import interpreter
from edgeserve.processes.child import Child, Children, Forked, pair
from edgeserve.processes.orphans import Orphans
from edgeserve.processes.start import Task

log = logging.getLogger("edgeserve.processes")

ANSWER_SECONDS = 30.0
"""Time that the fork server has for its imports, and for each answer; much longer than it needs on a loaded box."""
END_SECONDS = 5.0
ANSWER_BYTES = 64 << 10


class Forker:
    """A ``Launcher`` with one fork server (``forkserver``), which the first launch starts.

    A fork server that died is replaced by the next launch. Its children died with it.
    """

    def __init__(self, preload: Sequence[str] = (), seconds: float = ANSWER_SECONDS) -> None:
        self._preload = tuple(preload)
        self._seconds = seconds
        self._lock = threading.Lock()
        self._server: ForkServerProcess | None = None
        self._children = Children()
        self._orphans = Orphans()
        self._stopped = False

    def pids(self) -> list[int]:
        server = self._server
        return [server.pid, *self._children.pids()] if server and server.exit is None else []

    @property
    def pid(self) -> int | None:
        """The pid of the fork server; None before the first launch."""
        return self._server.pid if self._server else None

    def start(self) -> None:
        with self._lock:
            self._alive("workers")

    def launch(self, entry: str, arguments: dict[str, object], name: str) -> Child:
        message = Task(entry, arguments, name).encode()
        for _ in range(2):  # the fork server may have died since the last launch
            with self._lock:
                server = self._alive(name)
            if child := server.fork(message, name):
                return self._children.add(child)
        raise EngineFailure(f"no process for {name}: the fork server died twice at its launch; see the log")

    def _alive(self, name: str) -> ForkServerProcess:
        """The fork server that runs, or a new one. The caller holds the lock."""
        if self._stopped:
            raise ShuttingDown(f"the server ends and starts no process for {name}")
        if self._server and (code := self._server.exit) is not None:
            log.error("the fork server (pid %d) died with code %d, and its children with it", self._server.pid, code)
            self._server.stop()
            self._server = None
        self._orphans.reap()
        if self._server is None:
            try:
                self._server = ForkServerProcess(self._preload, self._seconds, self._orphans)
            except OSError as error:
                raise interpreter.refusal(name, error) from error
        return self._server

    def stop(self) -> None:
        with self._lock:
            self._stopped = True
            server, self._server = self._server, None
        if server:
            server.stop()
        self._orphans.reap()


class ForkServerProcess:
    """One fork server and its control socket. Raises OSError when the system starts no process."""

    def __init__(self, preload: Sequence[str], seconds: float, orphans: Orphans) -> None:
        self._seconds = seconds
        self._orphans = orphans
        self._lock = threading.Lock()
        self._ready = self._closed = False
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            try:
                self._process = interpreter.begin("edgeserve.processes.forkserver", [theirs.fileno()])
            except BaseException:
                self._control.close()
                raise
        self._control.settimeout(seconds)
        with contextlib.suppress(ConnectionError):  # it is dead already: its exit code says so
            self._control.send(json.dumps({"preload": list(preload)}).encode())

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def exit(self) -> int | None:
        return self._process.poll()

    def wake(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def leave(self, pid: int) -> None:
        self._orphans.add(pid)

    def fork(self, message: bytes, name: str) -> Child | None:
        """Ask for a child. None when the fork server is dead. Raises Busy or EngineFailure."""
        with ExitStack() as kept, ExitStack() as given:
            try:
                ours, work = pair(kept, given)
                status, far = pair(kept, given, socket.SOCK_SEQPACKET)
            except OSError as error:
                raise interpreter.refusal(name, error) from error
            sent = self._send(message, [work.fileno(), far.fileno()], name)
            given.close()  # the end of the status shows only when nobody holds its other end
            status.settimeout(self._seconds)
            data = self._answer(status, name) if sent else b""
            if not data:
                self._check_dead(name)
                return None
            answer = json.loads(data)
            if (number := answer.get("errno")) is not None:
                raise interpreter.refusal(name, OSError(number, os.strerror(number)))
            status.settimeout(None)
            kept.pop_all()
            return Child(Forked(answer["pid"], status, self), ours, name)

    def _send(self, message: bytes, descriptors: Sequence[int], name: str) -> bool:
        """False when the fork server is dead, or ends."""
        with self._lock:
            if self._closed:
                return False
            self._await_ready(name)
            try:
                socket.send_fds(self._control, [message], descriptors)
            except ConnectionError:
                return False
            except TimeoutError:
                raise self._silence(name) from None
        return True

    def _await_ready(self, name: str) -> None:
        """Wait for the imports of the fork server. Its death meanwhile shows at the next message."""
        if self._ready:
            return
        if data := self._answer(self._control, name):
            answer = json.loads(data)
            for module, error in answer["failed"].items():
                log.warning("the fork server cannot import %s (%s): each child imports it itself", module, error)
            if answer["threads"] > 1:
                log.warning("imports left the fork server with %d threads; forks want 1", answer["threads"])
        self._ready = True

    def _answer(self, sock: socket.socket, name: str) -> bytes:
        """The next message, or nothing at the end of ``sock``."""
        try:
            return sock.recv(ANSWER_BYTES)
        except ConnectionError:
            return b""
        except TimeoutError:
            raise self._silence(name) from None

    def _silence(self, name: str) -> EngineFailure:
        self.wake()  # for the next launch
        text = f"the fork server (pid {self.pid}) gave no answer in {self._seconds:g} s"
        return EngineFailure(f"no process for {name}: {text}; try again")

    def _check_dead(self, name: str) -> None:
        """Raise EngineFailure for a fork server that lives: it had no descriptor left to take the message."""
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            raise EngineFailure(
                f"no process for {name}: the fork server (pid {self.pid}) has no descriptor left; raise `ulimit -n`"
            ) from None

    def stop(self) -> None:
        """End the fork server, which kills its children first. Kill it when it takes longer than END_SECONDS."""
        with contextlib.suppress(OSError):  # a dead fork server has closed its end
            self._control.shutdown(socket.SHUT_RDWR)  # wakes a launch that waits for the imports
        try:
            self._process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with self._lock:
            self._closed = True
            self._control.close()
