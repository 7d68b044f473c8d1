from __future__ import annotations

import httpx
import pytest
from support.server import Running, fake_pool, serving

import edgeserve
from edgeserve.hosts.thread_host import ThreadHost

PROBES = ("/health/live", "/health/ready")


@pytest.mark.parametrize("path", PROBES)
def test_a_server_at_rest_is_well(client: httpx.Client, path: str) -> None:
    answer = client.get(path)
    assert (answer.status_code, answer.json()["status"]) == (200, "ok")


def test_the_version_is_told(client: httpx.Client) -> None:
    assert client.get("/version").json() == {"version": edgeserve.__version__}


@pytest.mark.parametrize("path", PROBES)
def test_no_key_is_asked_for(path: str) -> None:
    with serving(fake_pool(["llm"]), api_key="sesame") as running:
        assert running.client.get(path).status_code == 200
        assert running.client.get("/v1/models").status_code == 401


def test_a_server_that_ends_is_alive_and_not_ready() -> None:
    with serving(fake_pool(["llm"])) as running:
        running.pool._successions.close()
        answer = running.client.get("/health/ready")
        assert (answer.status_code, answer.json()) == (503, {"status": "draining", "failing": []})
        assert running.client.get("/health/live").status_code == 200


def test_an_engine_that_failed_for_good_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(fake_pool(["llm", "tts"])) as running:
        broken = running.pool.gates["tts"].host
        monkeypatch.setattr(ThreadHost, "healthy", property(lambda host: host is not broken))
        answer = running.client.get("/health/ready")
        assert (answer.status_code, answer.json()) == (503, {"status": "failing", "failing": ["tts"]})
        assert running.client.get("/health/live").status_code == 200


def test_a_full_queue_is_no_reason_to_be_restarted(running: Running) -> None:
    gate = running.pool.gates["llm"]
    before = gate.queue_limit
    try:
        gate.queue_limit = -1
        answer = running.client.post("/v1/chat", json={"prompt": "hello"})
        assert answer.status_code == 503
        assert running.client.get("/health/ready").status_code == 200
    finally:
        gate.queue_limit = before
