"""A server as a child process: its address, its end, and its end with the process that started it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import httpx
import psutil
import pytest
from benchmarks import cluster_node
from support.server import until
from support.sources import ROOT

from edgeserve.cluster.child import Child, serve_command
from edgeserve.errors import EngineFailure

COMMAND = cluster_node.command()
HOLDER = f"""
import os, sys
from edgeserve.cluster.child import Child
child = Child({COMMAND!r})
print(child.pid, child.url, flush=True)
sys.stdin.read()
"""
"""A process that starts a node and waits."""


def test_the_folder_of_the_moment_has_no_module_of_the_server(tmp_path: Path) -> None:
    """A node starts in the folder in which Ray was started."""
    (tmp_path / "edgeserve.py").write_text("print('another one')")
    command = [*serve_command()[: serve_command().index("serve")], "--version"]
    done = subprocess.run(
        command, cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("edgeserve ")


@pytest.mark.slow
def test_it_serves_and_stops() -> None:
    child = Child(COMMAND, {"EDGESERVE_API_KEY": "secret"})
    try:
        headers = {"Authorization": "Bearer secret"}
        assert httpx.get(f"{child.url}/v1/models", headers=headers, timeout=30).status_code == 200
        assert httpx.get(f"{child.url}/v1/models", timeout=30).status_code == 401
        assert child.alive
    finally:
        child.stop()
    assert not child.alive
    child.stop()


@pytest.mark.slow
def test_it_ends_with_a_killed_holder() -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    assert holder.stdout
    assert holder.stdin
    node = psutil.Process(int(holder.stdout.readline().split()[0]))
    os.kill(holder.pid, signal.SIGKILL)
    holder.wait(10)
    until(lambda: not node.is_running() or node.status() == psutil.STATUS_ZOMBIE, 30)
    holder.stdin.close()
    holder.stdout.close()


def test_a_server_that_does_not_start_is_an_error_with_its_code() -> None:
    with pytest.raises(EngineFailure, match="exit code 3"):
        Child(("sh", "-c", "echo no address; exit 3"))


def test_the_command_is_the_server_on_a_free_port() -> None:
    assert serve_command()[1:] == ("-P", "-m", "edgeserve", "serve", "--port", "0", "--wyoming", "0", "--until-eof")
