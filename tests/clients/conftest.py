"""Clients of other makers against a server on the starter models. ``make clients`` runs them.

A test that shows a feature of a client is marked ``client(name, feature)``. ``name`` is the client's package on the
package index, or ``npm:`` and its package there. A client that is no package has a ``version``. What passed goes to the
table of docs/clients.md.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

PYTHON = os.environ.get("EDGESERVE_CLIENTS_PYTHON", "")
"""The Python that has edgeserve: the one that runs the tests has the clients."""
NODE = os.environ.get("EDGESERVE_CLIENTS_NODE", "")
"""The folder ``node_modules`` of the clients on Node."""
FOUND = os.environ.get("EDGESERVE_CLIENTS_FOUND", "")
"""File for the outcomes, as JSON. Each run adds its clients."""
START_SECONDS = 120.0
SETTINGS = """\
[server]
unknown_models = "default"

[llm]
model = "smollm2-135m-instruct"

[asr]
model = "whisper-tiny.en"

[tts]
model = "hibari"
"""
OUTCOMES: dict[str, dict[str, str]] = {}
"""Outcome by client and feature."""
VERSIONS: dict[str, str] = {}
"""Versions of clients whose requests are played again."""


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "client(name, feature, version=''): a client, and what of it the test shows")


@pytest.fixture(scope="session")
def wyoming_port() -> int:
    """The server's port for Wyoming."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port: int = free.getsockname()[1]
    return port


@pytest.fixture(scope="session")
def address(wyoming_port: int) -> Iterator[str]:
    """The address of a server on the starter models, without a path."""
    if not PYTHON:
        pytest.skip("make clients installs the clients and runs these tests")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder, open(Path(folder) / "log", "w+", encoding="utf-8") as log:
        settings = Path(folder) / "models.toml"
        settings.write_text(SETTINGS, encoding="utf-8")
        command = [PYTHON, "-m", "edgeserve", "serve", "--config", str(settings), "--port", str(port)]
        command += ["--wyoming", str(wyoming_port)]
        server = subprocess.Popen(command, stdout=log, stderr=log)
        try:
            deadline = time.monotonic() + START_SECONDS
            while not _healthy(url):
                log.seek(0)
                assert server.poll() is None, f"the server ended: {log.read()}"
                assert time.monotonic() < deadline, f"the server does not start: {log.read()}"
                time.sleep(0.1)
            yield url
        finally:
            server.terminate()
            server.wait(30)


@pytest.fixture(scope="session")
def base_url(address: str) -> str:
    """The base address of OpenAI's clients."""
    return f"{address}/v1"


@pytest.fixture(scope="session")
def launched(address: str) -> Callable[[str], str]:
    """The settings that ``edgeserve launch`` prints for a client, by its name."""

    def settings(client: str) -> str:
        command = [PYTHON, "-m", "edgeserve", "launch", client, "--url", address]
        return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout

    return settings


def _healthy(url: str) -> bool:
    try:
        with urllib.request.urlopen(f"{url}/health", timeout=5) as answer:
            return bool(answer.status == 200)
    except urllib.error.URLError:
        return False


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: Any) -> Iterator[None]:
    outcome: Any = yield
    report = outcome.get_result()
    for mark in item.iter_markers("client"):
        name, feature = mark.args
        features = OUTCOMES.setdefault(name, {})
        VERSIONS.update((name, version) for version in mark.kwargs.values())
        if report.when == "call" or report.outcome != "passed":  # a fixture that fails or skips has no call
            worst = max(features.get(feature, "passed"), report.outcome, key=("passed", "skipped", "failed").index)
            features[feature] = worst


def pytest_sessionfinish(session: pytest.Session) -> None:
    if not FOUND:
        return
    file = Path(FOUND)
    rows = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    for name, features in OUTCOMES.items():
        rows.setdefault(name, {"version": VERSIONS.get(name) or version_of(name), "features": {}})["features"] |= (
            features
        )
    file.write_text(json.dumps(rows, indent=1), encoding="utf-8")


def version_of(name: str) -> str:
    """The version of a client that is installed; empty for one that is not."""
    try:
        if name.startswith("npm:"):
            manifest = Path(NODE) / name.removeprefix("npm:") / "package.json"
            return str(json.loads(manifest.read_text(encoding="utf-8"))["version"])
        return importlib.metadata.version(name)
    except (OSError, importlib.metadata.PackageNotFoundError):
        return ""
