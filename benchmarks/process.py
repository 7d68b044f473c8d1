"""A server process under measurement: started, asked, read from outside, ended."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

MB = 1 << 20


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of a process in MB: all, anonymous, file-backed. ``rss`` counts shared pages in full."""

    pss: float
    anonymous: float
    file: float
    rss: float = 0.0

    def __add__(self, other: Memory) -> Memory:
        return Memory(
            self.pss + other.pss, self.anonymous + other.anonymous, self.file + other.file, self.rss + other.rss
        )


def memory_of(pid: int) -> Memory:
    """Proportional set size (Linux, ``smaps_rollup``); elsewhere the unique set size, all of it counted as anonymous.

    Raises ProcessLookupError when the process has ended, PermissionError when it is not ours.
    """
    if not Path("/proc/self/smaps_rollup").exists():
        return _unique(pid)
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii")
    except FileNotFoundError:
        raise ProcessLookupError(f"there is no process {pid}") from None
    rows = {line.split(":")[0]: line.split()[1] for line in text.splitlines()[1:]}
    return Memory(*(int(rows[name]) / 1024 for name in ("Pss", "Pss_Anon", "Pss_File", "Rss")))


def _unique(pid: int) -> Memory:
    try:
        size = psutil.Process(pid).memory_full_info().uss / MB
    except psutil.NoSuchProcess:
        raise ProcessLookupError(f"there is no process {pid}") from None
    except psutil.AccessDenied:
        raise PermissionError(f"process {pid} is not ours to read") from None
    return Memory(size, size, 0.0, size)


def family(pid: int) -> list[psutil.Process]:
    """A process and all below it. Raises ProcessLookupError when the process has ended."""
    try:
        first = psutil.Process(pid)
        return [first, *first.children(recursive=True)]
    except psutil.NoSuchProcess:
        raise ProcessLookupError(f"there is no process {pid}") from None


def memory_of_all(pid: int) -> Memory:
    """The sum over a process and all below it. Raises as ``memory_of`` does."""
    total = memory_of(pid)
    for one in family(pid)[1:]:
        with contextlib.suppress(ProcessLookupError, KeyError):  # it ended meanwhile; a zombie has no rows
            total += memory_of(one.pid)
    return total


def processor_of_all(pid: int) -> float:
    """Seconds of processor time of a process and all that live below it."""
    total = 0.0
    for one in family(pid):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = one.cpu_times()
            total += times.user + times.system
    return total


class NotReady(RuntimeError):
    """The server answered 503."""


@dataclass(frozen=True, slots=True)
class ServerProcess:
    process: subprocess.Popen[bytes]
    port: int
    started: float

    @property
    def pid(self) -> int:
        return self.process.pid

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def memory(self) -> Memory:
        """Memory of the server and of the processes below it."""
        return memory_of_all(self.pid)

    def get(self, path: str) -> object:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        with contextlib.closing(connection):
            connection.request("GET", path)
            answer = connection.getresponse()
            body = answer.read()
            if answer.status != 200:
                kind = NotReady if answer.status == 503 else RuntimeError
                raise kind(f"GET {path} answered {answer.status}: {body[:500]!r}")
            return json.loads(body)

    def wait_healthy(self, timeout: float = 60.0) -> float:
        """Seconds from the start of the process to its first healthy answer."""
        while True:
            if self.process.poll() is not None:
                raise RuntimeError(f"the server ended with exit code {self.process.returncode}")
            try:
                self.get("/v1/health")
            except (ConnectionRefusedError, ConnectionResetError, NotReady):
                if time.perf_counter() - self.started > timeout:
                    raise
                time.sleep(0.005)
            else:
                return time.perf_counter() - self.started


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextlib.contextmanager
def serving(
    config: Path, *flags: str, environ: Mapping[str, str] | None = None, launcher: Sequence[str] = ()
) -> Iterator[ServerProcess]:
    """``edgeserve serve`` with this models.toml, ended by SIGTERM at the end of the block. ``launcher``: a command that
    runs the one after it."""
    port = free_port()
    command = [*launcher, sys.executable, "-m", "edgeserve", "serve", "--config", str(config), "--port", str(port)]
    with running([*command, *flags], port, environ) as server:
        yield server


@contextlib.contextmanager
def running(command: Sequence[str], port: int, environ: Mapping[str, str] | None = None) -> Iterator[ServerProcess]:
    """A server that this command starts on ``port``, ended by SIGTERM; when it ends badly, what it said is shown."""
    # Not a pipe: nobody would read it, and a full one stops the server.
    with tempfile.TemporaryFile() as errors:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, env={**os.environ, **(environ or {})}, stdout=subprocess.DEVNULL, stderr=errors
        )
        try:
            yield ServerProcess(process, port, started)
        finally:
            process.send_signal(signal.SIGTERM)
            if process.wait(timeout=60) != 0:
                errors.seek(0)
                sys.stderr.write(errors.read().decode(errors="replace"))
