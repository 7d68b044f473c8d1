"""The server of a command: the one that runs, else one of its own."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from pathlib import Path

import pytest
from support.server import fake_pool, serving

from edgeserve.commands import Call, own_server
from edgeserve.commands.remote import Server
from edgeserve.errors import EdgeserveError, EngineFailure


def call(settings: Path, text: str, **given: object) -> Call:
    (settings / "models.toml").write_text(text)
    usual = {"config": str(settings / "models.toml"), "url": None, "port": None, "log_level": None}
    args = argparse.Namespace(**usual | given)
    return Call(args, {"PATH": os.environ["PATH"], "PYTHONPATH": os.pathsep.join(filter(None, sys.path))})


def test_the_server_that_runs(settings: Path) -> None:
    with serving(fake_pool(["llm"])) as running:
        port = int(running.url.rstrip("/").rpartition(":")[2])
        with own_server.serving(call(settings, f"[server]\nport = {port}\n")) as found:
            assert found == Server(f"http://127.0.0.1:{port}")


@pytest.mark.slow
def test_one_of_its_own_where_none_runs(settings: Path) -> None:
    with own_server.serving(call(settings, '[server]\nport = 1\napi_key = "own"\n')) as found:
        assert found.ask("GET", "/v1/models")["data"] == []
    with pytest.raises(EdgeserveError, match="no edgeserve answers"):
        found.ask("GET", "/v1/models")


@pytest.mark.slow
def test_one_that_does_not_start(settings: Path) -> None:
    with (
        pytest.raises(EngineFailure, match="none could be started; it ended with exit code"),
        own_server.serving(call(settings, '[server]\nport = 1\n[llm]\nmodel = "/nowhere.gguf"\n')),
    ):
        pass


@pytest.mark.slow
def test_it_ends_with_a_command_that_is_told_to_end(settings: Path) -> None:
    with (
        pytest.raises(SystemExit) as ended,
        own_server.serving(call(settings, "[server]\nport = 1\n")) as found,
    ):
        signal.raise_signal(signal.SIGTERM)
    assert ended.value.code == 128 + signal.SIGTERM
    with pytest.raises(EdgeserveError, match="no edgeserve answers"):
        found.ask("GET", "/v1/models")


def test_a_named_server_must_answer(settings: Path) -> None:
    with pytest.raises(EdgeserveError, match="no edgeserve answers"), own_server.serving(call(settings, "", port=1)):
        pass
