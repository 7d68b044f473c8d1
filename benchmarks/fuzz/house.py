"""The server under the fuzzer, looked at from outside: its log, its health, its memory and descriptors."""

from __future__ import annotations

import contextlib
import http.client
import json
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
from benchmarks.chaos import fakes, judge
from benchmarks.fuzz.client import LIMIT, Client
from benchmarks.process import ServerProcess, free_port, memory_of, running

BAD_LINE = re.compile(r"^\S+ \S+ +(?:ERROR|CRITICAL) .*(?:\n +\|.*)*", re.MULTILINE)
"""A line of the log at the level ERROR, with its traceback."""
DECODER_DIED = re.compile(r"^\S+ \S+ +WARNING .* ended early: .*$", re.MULTILINE)
GROWTH_MB, GROWTH_DESCRIPTORS = 30.0, 12
"""Growth that the server may show between its first cases and its last. Libraries keep some for ever."""
REST_SECONDS = 12.0
"""Longest wait for the decoders' fork server and idle engines to end."""


@dataclass(frozen=True, slots=True)
class Held:
    """MB of the serving process, and its descriptors."""

    memory: float
    descriptors: int

    def faults(self, before: Held) -> Iterator[str]:
        if self.memory > before.memory + GROWTH_MB:
            yield f"the server's memory grew from {before.memory:.1f} to {self.memory:.1f} MB"
        if self.descriptors > before.descriptors + GROWTH_DESCRIPTORS:
            yield f"the server's descriptors grew from {before.descriptors} to {self.descriptors}"


@dataclass(slots=True)
class House:
    server: ServerProcess
    log: Path
    client: Client = field(init=False)
    decoders: int = 0
    """Decoders whose process died, which only their own request may notice."""
    _read: int = 0

    def __post_init__(self) -> None:
        self.client = Client(self.server.port)

    def said(self) -> list[str]:
        """Faults in the lines of the log since the last call."""
        with self.log.open("rb") as file:
            file.seek(self._read)
            data = file.read()
        self._read += len(data)
        text = data.decode(errors="replace")
        self.decoders += len(DECODER_DIED.findall(text))
        return [*judge.of_log(text), *BAD_LINE.findall(text)]

    def unwell(self) -> list[str]:
        """Why the server is not well; empty where it is."""
        if (code := self.server.process.poll()) is not None:
            return [f"the server ended with code {code}"]
        try:
            status, body = self.ask("GET", "/v1/health")
        except (OSError, http.client.HTTPException) as error:
            return [f"/v1/health: {type(error).__name__}: {error}"]
        return [] if status == 200 and body.get("status") == "ok" else [f"/v1/health is {status}: {body}"]

    def ask(self, method: str, path: str) -> tuple[int, dict[str, object]]:
        connection = http.client.HTTPConnection("127.0.0.1", self.server.port, timeout=LIMIT)
        with contextlib.closing(connection):
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, json.loads(answer.read())

    def end_sessions(self) -> None:
        """End the live sessions that the cases left behind; only some may be open at once."""
        while self.client.sessions:
            self.ask("DELETE", f"/v1/transcribe/stream/{self.client.sessions.pop()}")

    def held(self) -> Held:
        """Let the engines go cold, wait for the decoders to end, and measure the server."""
        until = time.monotonic() + REST_SECONDS
        for job in fakes.ENGINES:
            while self.ask("POST", f"/memory/evict/{job}")[0] != 200 and time.monotonic() < until:
                time.sleep(0.05)
        self.ask("POST", "/memory/defragment")
        process = psutil.Process(self.server.pid)
        while len(process.children()) > 1 and time.monotonic() < until:
            time.sleep(0.1)
        return Held(memory_of(self.server.pid).pss, process.num_fds())


@contextlib.contextmanager
def house(folder: Path) -> Iterator[House]:
    """Start the server; it ends with the block."""
    fakes.prepare(folder)
    log, port = folder / "server.log", free_port()
    logging = ("sh", "-c", 'exec "$@" 2>>"$0"', str(log))
    command = (*logging, sys.executable, "-m", "benchmarks.fuzz.serve", str(folder), str(port))
    with running(command, port) as server:
        server.wait_healthy()
        yield House(server, log)
