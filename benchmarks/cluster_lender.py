"""A box that lends its memory, on this machine: ``edgeserve rpc-worker`` as a process, to be killed and stopped."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator, Sequence
from typing import IO, cast

import psutil
from benchmarks.process import free_port


class Lender:
    """Offers so many MB on a loopback address, or what its machine has. Ready when made.

    ``launcher`` comes before the command, as that of a control group. Raises RuntimeError where it does not start.
    """

    def __init__(self, memory_mb: int | None, launcher: Sequence[str] = ()) -> None:
        self.port = free_port()
        self.node = f"127.0.0.1:{self.port}"
        command = [*launcher, sys.executable, "-m", "edgeserve", "rpc-worker", "--host", "127.0.0.1"]
        command += ["--port", str(self.port), *(() if memory_mb is None else ("--memory-mb", str(memory_mb)))]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        if not any("offers" in line for line in cast(IO[str], self.process.stdout)):
            words = cast(IO[str], self.process.stderr).read()
            self.end()
            raise RuntimeError(f"the worker ended: {words[-1000:]}")

    def end(self) -> None:
        """As a box that is switched off."""
        self.process.kill()
        self.process.wait()
        for stream in (self.process.stdout, self.process.stderr):
            cast(IO[str], stream).close()

    def crash(self) -> None:
        """Kill the process that holds layers; its parent starts another."""
        (serving,) = psutil.Process(self.process.pid).children()
        os.kill(serving.pid, signal.SIGKILL)

    def hang(self, signum: int = signal.SIGSTOP) -> None:
        """Stop all of its processes; SIGCONT lets them go on."""
        above = psutil.Process(self.process.pid)
        for one in [above, *above.children(recursive=True)]:
            one.send_signal(signum)

    @property
    def answers(self) -> bool:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", self.port), timeout=1):
            return True
        return False


@contextlib.contextmanager
def lenders(*sizes: int) -> Iterator[list[Lender]]:
    """One box for each size in MB."""
    made: list[Lender] = []
    try:
        for size in sizes:
            made.append(Lender(size))
        yield made
    finally:
        for one in made:
            one.end()
