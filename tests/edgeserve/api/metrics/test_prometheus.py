"""Prometheus itself reads the figures, and answers every query of the dashboard."""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.dashboard import queries
from support.gates import FAKES, fake_spec
from support.server import Running, considerate_governor, serving, until

from edgeserve.engine import Cancel
from edgeserve.engines.fake.chat import FakeChat
from edgeserve.hosts.process_host import ProcessHost
from edgeserve.hosts.thread_host import ThreadHost
from edgeserve.jobs import JOBS
from edgeserve.listening import listen
from edgeserve.messages import ChatEvent, ChatRequest, FinishEvent
from edgeserve.processes.roster import Roster
from edgeserve.processes.spawner import Spawner
from edgeserve.residency.pool import Pool

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


class CachingChat(FakeChat):
    """Has one token of each prompt in a cache."""

    def chat(self, request: ChatRequest, cancel: Cancel) -> Iterator[ChatEvent]:
        for event in super().chat(request, cancel):
            yield replace(event, cached_tokens=1) if isinstance(event, FinishEvent) else event


def troubled_pool() -> Pool:
    """All jobs on fakes. Chat has a cache; the vision model has a process of its own, which "crash" ends."""
    governor, roster = considerate_governor(), Roster()
    engines = [(CachingChat if job == "llm" else FAKES[job])(fake_spec(job, abort_word="crash")) for job in JOBS]
    hosts = [
        ProcessHost(one, roster.add(Spawner()), governor) if one.spec.job == "vision" else ThreadHost(one, governor)
        for one in engines
    ]
    return Pool(hosts, governor, roster=roster)


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving(troubled_pool(), api_key="sesame") as running:
        running.client.headers["Authorization"] = "Bearer sesame"
        yield running


def ask_all(client: httpx.Client) -> None:
    """Requests of each kind, and each trouble, so that every family has a sample."""
    assert client.post("/admin/unload", json={"model": "asr"}).status_code == 200
    crash = {"model": "vision", "messages": [{"role": "user", "content": "crash"}]}
    # Its process dies, and after the third death the gate refuses for a while.
    assert client.post("/v1/chat/completions", json=crash).status_code in (500, 503)
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
            return len(result(client, "edgeserve_requests_total[1m]")) > 0 and all(
                result(client, query) for query in queries()
            )

        until(scraped, 120)
        (up,) = result(client, "up")
        assert up["value"][1] == "1"
        assert result(client, "scrape_samples_scraped")[0]["value"][1] != "0"
