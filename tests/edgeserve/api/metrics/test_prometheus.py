"""Prometheus itself reads the figures, and answers every query of the dashboard."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.dashboard import queries
from support.server import Running, fake_pool, serving, until

from edgeserve.jobs import JOBS
from edgeserve.listening import listen

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        not (shutil.which("prometheus") and shutil.which("promtool")),
        reason="no prometheus here: apt-get install prometheus",
    ),
]

SETTINGS = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: edgeserve
    authorization: {{credentials_file: {key}}}
    static_configs: [{{targets: ["{target}"]}}]
"""
QUIET = ("refusals_total", "reclaim", "worker_restarts_total", "transitions_total", "prompt_cached")
"""Figures that this server may have none of: it neither refuses, nor moves down, nor has workers or caches."""


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving(fake_pool(JOBS), api_key="sesame") as running:
        running.client.headers["Authorization"] = "Bearer sesame"
        yield running


def ask_all(client: httpx.Client) -> None:
    """Requests of each kind, so that every family has a sample."""
    says = [{"role": "user", "content": "one two three"}]
    assert client.post("/v1/chat/completions", json={"messages": says}).status_code == 200
    assert client.post("/v1/audio/speech", json={"input": "hello", "response_format": "wav"}).status_code == 200
    spoken = client.post("/v1/tts/synthesize", json={"text": "hello"}).content
    assert client.post("/v1/transcribe/file", files={"audio": ("said.wav", spoken)}).status_code == 200


@contextlib.contextmanager
def prometheus(running: Running) -> Iterator[httpx.Client]:
    """A Prometheus on a free port that scrapes the server each second, with its key."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "key").write_text("sesame")
        target = running.url.removeprefix("http://").rstrip("/")
        (folder / "prometheus.yml").write_text(SETTINGS.format(key=folder / "key", target=target))
        with contextlib.closing(listen("127.0.0.1", 0)) as free:
            address = f"127.0.0.1:{free.getsockname()[1]}"
        command = ["prometheus", f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data"]
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen([*command, f"--web.listen-address={address}"], stderr=log, stdout=log)
        try:
            with httpx.Client(base_url=f"http://{address}", timeout=30) as client:
                until(lambda: process.poll() is not None or is_ready(client), 60)
                assert process.poll() is None, (folder / "log").read_text()
                yield client
        finally:
            process.terminate()
            process.wait(30)


def is_ready(client: httpx.Client) -> bool:
    with contextlib.suppress(httpx.TransportError):
        return client.get("/-/ready").status_code == 200
    return False


def result(client: httpx.Client, query: str) -> list[Any]:
    answer = client.get("/api/v1/query", params={"query": query})
    assert answer.json().get("status") == "success", f"{query}: {answer.text}"
    found: list[Any] = answer.json()["data"]["result"]
    return found


def test_promtool_has_nothing_against_it(running: Running) -> None:
    ask_all(running.client)
    text = running.client.get("/metrics").text
    checked = subprocess.run(["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60)
    assert (checked.returncode, checked.stdout + checked.stderr) == (0, "")


def test_every_query_of_the_dashboard_is_answered(running: Running) -> None:
    with prometheus(running) as client:

        def scraped() -> bool:
            ask_all(running.client)  # a rate needs figures that grow between two scrapes
            return len(result(client, "edgeserve_requests_total[1m]")) > 0 and all(map(answered, queries()))

        def answered(query: str) -> bool:
            found = result(client, query)
            return bool(found) or any(name in query for name in QUIET)

        until(scraped, 120)
        (up,) = result(client, "up")
        assert up["value"][1] == "1"
        assert result(client, "scrape_samples_scraped")[0]["value"][1] != "0"
