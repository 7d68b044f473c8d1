"""``edgeserve pull`` through a running server."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import run, start
from support.http_files import Files, serving_files
from support.managed import managed
from support.server import Running, until
from support.store import GGUF

from edgeserve.models import catalog
from edgeserve.models.store import Store


@pytest.fixture
def files() -> Iterator[Files]:
    with serving_files() as files:
        files.data["/one.gguf"] = GGUF
        yield files


@pytest.fixture
def running(settings: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Running]:
    monkeypatch.setattr(catalog, "COMPANIONS", {})
    with managed({}, Store(settings / "far")) as (running, _):
        yield running


def test_the_server_pulls(running: Running, files: Files, settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("pull", "--url", running.url, f"{files.url}/one.gguf") == 0
    assert capsys.readouterr().out == "one: pulled, 2.9 KB, licence unknown\n"
    assert (settings / "far" / "one" / "one.gguf").read_bytes() == GGUF


def test_a_model_that_fails_does_not_stop_the_others(
    running: Running, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    names = [f"{files.url}/none.gguf", "qwen4", f"{files.url}/one.gguf"]
    assert run("pull", *names, environ={"EDGESERVE_URL": running.url}) == 1
    got = capsys.readouterr()
    assert got.out == "one: pulled, 2.9 KB, licence unknown\n"
    errors = [line for line in got.err.splitlines() if line.startswith("[ERROR]")]
    assert "answered 404" in errors[0]
    assert "no model is called 'qwen4'" in errors[1]


@pytest.mark.slow
def test_ctrl_c_ends_the_pull_of_the_server(running: Running, files: Files) -> None:
    files.gate = threading.Event()
    process = start("pull", f"{files.url}/one.gguf", EDGESERVE_URL=running.url)
    until(lambda: bool(running.app.state.pulls.running), 20)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130
    process.communicate()
    (pull,) = running.app.state.pulls.all()
    until(lambda: pull.state.over)
    assert pull.state.stage == "cancelled"
