"""Sockets that come with the process, as systemd hands them over."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import httpx
import pytest
from support.cases import each
from support.server import until

from edgeserve.activation import listeners
from edgeserve.errors import ConfigError

ASK = """
import os, socket, sys
from edgeserve.activation import listeners
from edgeserve.errors import ConfigError
os.environ["LISTEN_PID"] = str(os.getpid())
try:
    found = listeners(os.environ)
    print([one.getsockname()[1] for one in found], [os.get_inheritable(one.fileno()) for one in found])
except ConfigError as error:
    print(error.message)
"""


def asked(*given: socket.socket) -> str:
    """The answer of a process that gets these sockets from descriptor 3 on."""

    def place() -> None:
        kept = [os.dup(one.fileno()) for one in given]  # their places may be in each other's way
        for number, one in enumerate(kept):
            os.dup2(one, 3 + number)

    ended = subprocess.run(
        [sys.executable, "-c", ASK],
        env={**os.environ, "LISTEN_FDS": str(len(given))},
        preexec_fn=place,
        close_fds=False,
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    return ended.stdout.strip()


@each(
    "environ",
    [
        {},
        {"LISTEN_FDS": "1"},
        {"LISTEN_FDS": "1", "LISTEN_PID": "1"},
        {"LISTEN_FDS": "0", "LISTEN_PID": str(os.getpid())},
        {"LISTEN_FDS": "x", "LISTEN_PID": str(os.getpid())},
        {"LISTEN_FDS": "99", "LISTEN_PID": str(os.getpid())},
    ],
)
def test_a_process_that_was_given_none(environ: dict[str, str]) -> None:
    assert listeners(environ) == []


@pytest.mark.slow
def test_a_process_takes_its_sockets_and_keeps_them_from_its_children() -> None:
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        ports = [one.getsockname()[1], two.getsockname()[1]]
        assert asked(one, two) == f"{ports} [False, False]"


@pytest.mark.slow
def test_a_socket_that_does_not_listen_is_refused() -> None:
    with socket.socket() as one:
        assert "descriptor 3 of LISTEN_FDS: expected a listening TCP socket" in asked(one)


def test_a_descriptor_that_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (tmp_path / "file").open("w") as file:
        monkeypatch.setattr("edgeserve.activation.FIRST", file.fileno())
        with pytest.raises(ConfigError, match="expected a listening TCP socket"):
            listeners({"LISTEN_FDS": "1", "LISTEN_PID": str(os.getpid())})


@pytest.mark.slow
@pytest.mark.skipif(
    shutil.which("systemd-socket-activate") is None, reason="systemd-socket-activate holds the socket as systemd does"
)
def test_the_first_connection_starts_a_server_that_ends_when_idle(tmp_path: Path) -> None:
    (tmp_path / "models.toml").write_text("[server]\nidle_exit = 1\n")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    serve = [sys.executable, "-m", "edgeserve", "serve", "--config", str(tmp_path / "models.toml")]
    command = ["systemd-socket-activate", "-l", f"127.0.0.1:{port}", *serve]
    environ = {**os.environ, "EDGESERVE_API_KEY": ""}
    process = subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, text=True, env=environ)
    try:
        until(lambda: listens(port), seconds=60)
        answer = httpx.get(f"http://127.0.0.1:{port}/v1/health", timeout=120)
        assert json.loads(answer.text)["status"] == "ok"
        _, logged = process.communicate(timeout=120)  # the server takes the place of the program that held the socket
    finally:
        process.kill()
        process.communicate()
    assert process.returncode == 0
    assert "nobody asked for 1 s: the server ends" in logged


def listens(port: int) -> bool:
    """Whether the port is in the system's list of listening sockets; asking would start the server."""
    rows = Path("/proc/net/tcp").read_text().splitlines()[1:]
    return any(row.split()[1].endswith(f":{port:04X}") and row.split()[3] == "0A" for row in rows)
