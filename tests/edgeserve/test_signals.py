"""The end of the server: by one signal, by two, or with its terminal."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest
from support import fake_serve
from support.server import until

pytestmark = pytest.mark.slow

SLOW = 0.05
"""Seconds that a word takes."""


def started(drain_seconds: float, delay: float, stdin: Any, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, fake_serve.__file__, str(drain_seconds), str(delay)],
        env={"PATH": os.environ["PATH"], **more},
        stdin=stdin,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )


class Process:
    """A server on fake engines as a process of its own."""

    def __init__(
        self, drain_seconds: float = 60.0, delay: float = SLOW, stdin: Any = subprocess.DEVNULL, **more: str
    ) -> None:
        self.process = started(drain_seconds, delay, stdin, **more)
        assert self.process.stdout
        self.url = self.process.stdout.readline().strip()
        assert self.url, self.process.communicate()[1]

    def stream(self, words: int = 900) -> contextlib.AbstractContextManager[httpx.Response]:
        body = {"model": "fake-llm", "stream": True, "messages": [{"role": "user", "content": "word " * words}]}
        return httpx.stream("POST", f"{self.url}/v1/chat/completions", json=body, timeout=30)

    def refuses(self) -> bool:
        """Whether it has closed its socket: it drains."""
        try:
            return bool(httpx.get(f"{self.url}/v1/health", timeout=5).status_code == 503)
        except httpx.TransportError:
            return True

    def ends(self, seconds: float = 20.0) -> tuple[int, str]:
        """The exit code, and what was logged."""
        _, logged = self.process.communicate(timeout=seconds)
        assert "Traceback" not in logged, logged
        return self.process.returncode, logged


@contextlib.contextmanager
def served(*args: Any, **more: Any) -> Iterator[Process]:
    one = Process(*args, **more)
    try:
        yield one
    finally:
        one.process.kill()
        one.process.communicate()


def the_end(lines: Iterator[str]) -> dict[str, Any]:
    """The last event of a stream that was cut."""
    events = [line.removeprefix("data: ") for line in lines if line.startswith("data: ")]
    found: dict[str, Any] = json.loads(next(one for one in reversed(events) if one != "[DONE]"))
    return found


@pytest.mark.parametrize("first", [signal.SIGINT, signal.SIGTERM])
def test_a_second_ctrl_c_ends_each_stream_with_an_error(first: int) -> None:
    with served() as one, one.stream() as here, one.stream() as there:
        lines = [response.iter_lines() for response in (here, there)]
        assert next(lines[0])
        one.process.send_signal(first)
        until(one.refuses)
        one.process.send_signal(signal.SIGINT)
        for each in lines:
            assert the_end(each)["error"]["message"] == "the server was told to end at once"
        assert one.ends()[0] == 0


def test_a_second_ctrl_c_tells_a_stream_in_the_middle_of_a_long_step() -> None:
    with served(delay=1.8) as one, one.stream() as response:
        lines = response.iter_lines()
        assert next(lines)
        one.process.send_signal(signal.SIGINT)
        until(one.refuses)
        one.process.send_signal(signal.SIGINT)
        assert the_end(lines)["error"]["message"] == "the server was told to end at once"
        assert one.ends()[0] == 0


def test_a_client_that_does_not_read_cannot_hold_the_end_up() -> None:
    with served(delay=0.0) as one, socket.socket() as silent:
        silent.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        silent.connect(("127.0.0.1", int(one.url.rpartition(":")[2])))
        body = json.dumps({"stream": True, "n": 8, "messages": [{"role": "user", "content": "word " * 900}]}).encode()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n"
        silent.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
        assert silent.recv(12) == b"HTTP/1.1 200"
        one.process.send_signal(signal.SIGTERM)
        until(one.refuses)
        with pytest.raises(subprocess.TimeoutExpired):
            one.process.wait(1)
        one.process.send_signal(signal.SIGINT)
        assert one.ends()[0] == 0


def test_sighup_without_a_terminal_reads_the_settings_again() -> None:
    with served() as one:
        one.process.send_signal(signal.SIGHUP)
        one.process.send_signal(signal.SIGHUP)
        assert httpx.get(f"{one.url}/v1/health", timeout=5).status_code == 200
        one.process.send_signal(signal.SIGTERM)
        code, logged = one.ends()
    assert code == 0
    assert "settings of defaults: nothing to change" in logged


def test_the_end_of_its_terminal_ends_the_server() -> None:
    mine, theirs = pty.openpty()
    with served(stdin=theirs, FAKE_TERMINAL="1") as one:
        os.close(theirs)
        os.kill(one.process.pid, signal.SIGHUP)
        assert httpx.get(f"{one.url}/v1/health", timeout=5).status_code == 200, "the terminal is still there"
        os.close(mine)
        assert one.ends()[0] == 0


def test_a_server_under_nohup_outlives_its_terminal() -> None:
    mine, theirs = pty.openpty()
    with served(stdin=theirs, FAKE_TERMINAL="1", FAKE_IGNORE="SIGHUP") as one:
        os.close(theirs)
        os.close(mine)
        assert httpx.get(f"{one.url}/v1/health", timeout=5).status_code == 200
        one.process.send_signal(signal.SIGTERM)
        code, logged = one.ends()
    assert code == 0
    assert "SIGHUP" not in logged


@pytest.fixture
def held(tmp_path: Path) -> Path:
    """The folder of pipes at which an engine waits on its way up, as long as a test holds the pipe's other end."""
    for step in ("open", "heat"):
        os.mkfifo(tmp_path / step)
    return tmp_path


def opened(pipe: Path) -> int:
    """The writer's end of a pipe. Waits until the engine is at that step."""
    return os.open(pipe, os.O_WRONLY)


@pytest.mark.parametrize(
    ("worker", "told"),
    [
        ({}, "the server ends now, while llm still loads: nothing ends a load on a thread"),
        ({"FAKE_WORKER": "1"}, "llm is on its way up; its load is given up, since the server ends"),
    ],
    ids=["thread", "worker"],
)
def test_a_load_at_the_start_does_not_outlast_the_end(held: Path, worker: dict[str, str], told: str) -> None:
    process = started(60.0, 0.0, subprocess.DEVNULL, FAKE_HOLD=str(held), FAKE_END="0.3", **worker)
    pipe = opened(held / "open")
    try:
        process.send_signal(signal.SIGTERM)
        printed, logged = process.communicate(timeout=20)
    finally:
        os.close(pipe)
        process.kill()
    assert (process.returncode, printed) == (128 + signal.SIGTERM, "")
    assert told in logged
    assert "Traceback" not in logged


@pytest.mark.parametrize(
    ("worker", "code", "told"),
    [
        ({}, 128 + signal.SIGTERM, "the server ends now, while llm still loads"),
        ({"FAKE_WORKER": "1"}, 0, "llm is on its way up; its load is given up"),
    ],
    ids=["thread", "worker"],
)
def test_a_load_for_a_request_does_not_outlast_the_end(
    held: Path, worker: dict[str, str], code: int, told: str
) -> None:
    os.unlink(held / "open")
    with (
        served(0.2, 0.0, FAKE_HOLD=str(held), FAKE_END="1.5", **worker) as one,
        ThreadPoolExecutor(1) as threads,
    ):
        asked = threads.submit(httpx.post, f"{one.url}/v1/chat", json={"prompt": "hello"}, timeout=30)
        pipe = opened(held / "heat")
        try:
            one.process.send_signal(signal.SIGTERM)
            ended, logged = one.ends()
        finally:
            os.close(pipe)
        assert ended == code
        assert told in logged
        if worker:
            assert asked.result().status_code == 503
            assert "shutting down" in asked.result().json()["error"]["message"]
        else:
            assert isinstance(asked.exception(), httpx.TransportError)
