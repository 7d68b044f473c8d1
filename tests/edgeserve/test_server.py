"""The listening socket, and who may be let in through it."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from edgeserve.config import Config, ServerSettings
from edgeserve.errors import ConfigError
from edgeserve.server import check_open, listen


def test_small_writes_leave_at_once() -> None:
    """Nagle's algorithm would hold each second one back until the client acknowledges, 40 ms later."""
    with contextlib.closing(listen("127.0.0.1", 0)) as listener:
        listener.listen()
        with socket.create_connection(listener.getsockname()), contextlib.closing(listener.accept()[0]) as served:
            assert served.proto == socket.IPPROTO_TCP, "asyncio sets TCP_NODELAY on no other"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.20", "fe80::1", "::ffff:10.0.0.1", "8.8.8.8"])
def test_other_machines_are_let_in_without_a_key_only_where_that_is_said(
    host: str, caplog: pytest.LogCaptureFixture
) -> None:
    with pytest.raises(ConfigError, match=f"listening on {host} without a key.*EDGESERVE_API_KEY.*--insecure"):
        check_open(Config(), host, insecure=False)
    assert not caplog.text
    check_open(Config(), host, insecure=True)
    assert "whoever reaches this machine can use it" in caplog.text
    caplog.clear()
    check_open(Config(ServerSettings(api_key="sesame")), host, insecure=False)
    assert not caplog.text


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"])
def test_this_machine_alone_needs_no_key(host: str, caplog: pytest.LogCaptureFixture) -> None:
    check_open(Config(), host, insecure=False)
    assert not caplog.text


@pytest.mark.parametrize("host", ["0.0.0.0", "", "0"])
def test_the_command_refuses_in_one_line(host: str, tmp_path: Path) -> None:
    """However the address is spelled that means all of them; the socket is bound, and never listens."""
    (tmp_path / "models.toml").write_text("[server]\nport = 0\n")
    command = [sys.executable, "-m", "edgeserve", "serve", "--config", str(tmp_path / "models.toml"), "--host", host]
    environ = {**os.environ, "EDGESERVE_API_KEY": ""}
    ended = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environ)
    assert ended.returncode == 2
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert line.startswith("[ERROR] listening on 0.0.0.0 without a key")
