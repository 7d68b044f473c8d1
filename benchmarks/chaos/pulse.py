"""The health of a server, asked from a process of its own that does nothing else.

    python -m benchmarks.chaos.pulse PORT

One line a look: moment (perf_counter, which all processes of Linux share), seconds, status, lateness. Ends with stdin.
"""

from __future__ import annotations

import contextlib
import http.client
import select
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field

LOOK = 0.25
PATIENCE = 20.0
"""Longest wait for an answer about the health, which is a fault long before."""


@dataclass(frozen=True, slots=True)
class Look:
    """One answer of /v1/health: ``status`` 0 where none came.

    ``late``: seconds by which the asking process itself woke too late around it, because others took the processor.
    """

    at: float
    seconds: float
    status: int
    late: float = 0.0


@dataclass(slots=True)
class Pulse:
    """Looks while its block runs. ``clock``: seconds of the run, a shifted ``perf_counter``."""

    port: int
    clock: Callable[[], float]
    looks: list[Look] = field(default_factory=list)
    _process: subprocess.Popen[str] | None = None

    def __enter__(self) -> Pulse:
        command = [sys.executable, "-m", "benchmarks.chaos.pulse", str(self.port)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        return self

    def __exit__(self, *error: object) -> None:
        assert self._process is not None
        shift = self.clock() - time.perf_counter()
        told, _ = self._process.communicate()
        for line in told.splitlines():
            at, seconds, status, late = map(float, line.split())
            self.looks.append(Look(at + shift, seconds, int(status), late))


def health(port: int) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    with contextlib.closing(connection):
        connection.request("GET", "/v1/health")
        answer = connection.getresponse()
        answer.read()
        return answer.status


def main(port: int) -> None:
    rows: list[str] = []  # written at the end: nobody reads the pipe meanwhile
    late = _wait()
    while late is not None:
        at, status = time.perf_counter(), 0
        with contextlib.suppress(OSError, http.client.HTTPException):
            status = health(port)
        seconds, before = time.perf_counter() - at, late
        late = _wait()
        rows.append(f"{at} {seconds} {status} {before + (late or 0.0)}")
    print("\n".join(rows))


def _wait() -> float | None:
    """Wait for the next look; returns by how much it was too long. None at the end."""
    at = time.perf_counter()
    ended, _, _ = select.select([sys.stdin], [], [], LOOK)
    return None if ended else time.perf_counter() - at - LOOK


if __name__ == "__main__":
    main(int(sys.argv[1]))
