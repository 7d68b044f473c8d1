"""``edgeserve health`` against a running server."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import run, told
from support.server import fake_pool, serving

import edgeserve


def test_a_server_that_is_well_needs_no_key(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(fake_pool(["llm"]), api_key="sesame") as running:
        assert run("health", "--url", running.url.rstrip("/")) == 0
        assert capsys.readouterr().out == f"ok, edgeserve {edgeserve.__version__}\n"
        running.pool.failing = lambda: ["llm"]  # type: ignore[method-assign, assignment, return-value]
        assert run("health", "--url", running.url.rstrip("/")) == 1
        assert "answered 503" in told(capsys)[0]


def test_a_server_that_is_not_there(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("health", "--url", "http://127.0.0.1:1") == 1
    assert "no edgeserve answers at http://127.0.0.1:1" in told(capsys)[0]
