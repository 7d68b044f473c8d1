"""``edgeserve rpc-worker``: the addresses that it takes, and what it needs."""

from __future__ import annotations

import socket

import pytest
from support.commands import run, told

from edgeserve.engines.llama import rpc


@pytest.mark.parametrize("host", ["0.0.0.0", "8.8.8.8", "::", "localhost", "box2"])
def test_only_private_addresses_are_offered_at_with_the_authors_warning(
    host: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("rpc-worker", "--host", host) == 2
    (line,) = told(capsys)
    assert f"--host {host}: expected an IPv4 address of this machine in a private network" in line
    assert "never run it on an open network" in line


def test_the_box_that_serves_has_to_know_the_port(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("rpc-worker", "--host", "127.0.0.1", "--port", "0") == 2
    assert "--port 0: expected 1 to 65535" in told(capsys)[0]


def test_the_address_is_no_option(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        run("rpc-worker")
    assert end.value.code == 2
    assert "--host" in capsys.readouterr().err


def test_llama_cpp_without_rpc_names_the_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rpc, "plugin", lambda: None)
    assert run("rpc-worker", "--host", "127.0.0.1") == 2
    assert "EDGESERVE_RPC=1 make serve" in told(capsys)[0]


def test_a_port_in_use_and_memory_that_is_too_small(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(rpc, "plugin", lambda: __file__)
    with socket.create_server(("127.0.0.1", 0)) as other:
        port = str(other.getsockname()[1])
        assert run("rpc-worker", "--host", "127.0.0.1", "--port", port) == 2
    (said,) = told(capsys)
    assert f"cannot listen on 127.0.0.1 port {port}" in said
    assert said.endswith("choose another with --port N")  # 0 is refused
    assert run("rpc-worker", "--host", "127.0.0.1", "--memory-mb", "10") == 2
    assert "10 MB of memory are free to offer; expected 64 at least" in told(capsys)[0]
