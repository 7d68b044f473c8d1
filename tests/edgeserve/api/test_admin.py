"""The memory routes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpx
import pytest
from support.server import Running, fake_pool, serving

from edgeserve.engine import Rung
from edgeserve.engines.fake.chat import FakeChat


def test_the_reports_have_their_shapes(client: httpx.Client) -> None:
    stats = client.get("/memory/stats").json()
    assert {"total_mb", "budget_usable_mb", "pressure_level", "pss_anon_mb", "pss_file_mb", "budget_winner"} <= set(
        stats
    )
    assert {one["model_type"] for one in client.get("/memory/models").json()} == {
        "llm",
        "vision",
        "asr",
        "tts",
        "rerank",
    }
    health = client.get("/memory/health").json()
    assert set(health) >= {"healthy", "pressure", "used_percent", "message"}
    assert "fragmentation_percent" in client.get("/memory/fragmentation").json()
    assert isinstance(client.get("/memory/offloaded").json(), list)
    assert client.post("/memory/defragment").json()["status"] == "defragmentation_triggered"


def test_preload_and_evict(running: Running) -> None:
    client = running.client
    answer = client.post("/memory/preload", json={"engines": ["asr"]})
    assert answer.json() == {"results": {"asr:fake-asr": True}}
    wanted = {"models": [{"name": "fake-tts", "model_type": "tts", "quantization": "float16"}]}
    assert client.post("/memory/preload", json=wanted).json() == {"results": {"tts:fake-tts": True}}
    assert client.post("/memory/evict/asr").json() == {"status": "evicted", "model_type": "asr"}
    evictions = client.get("/memory/evictions").json()
    assert evictions[-1]["model_name"] == "fake-asr"
    assert {"expected_mb", "memory_freed_mb", "reason", "action", "timestamp"} <= set(evictions[-1])
    assert client.post("/memory/evict/wheel").status_code == 404
    assert client.post("/memory/preload", json={}).status_code == 400
    assert client.post("/memory/preload", json={"models": [{"name": "gpt-7"}]}).status_code == 404


def test_an_engine_at_work_is_not_evicted() -> None:
    with serving(fake_pool(["llm"], delay=0.01, context=10**6)) as running:
        with running.client.stream("POST", "/v1/chat/stream", json={"prompt": "word " * 5000}) as stream:
            lines = stream.iter_lines()  # kept: closing it would close the connection
            next(lines)
            answer = httpx.post(f"{running.url}/memory/evict/llm")
        assert answer.status_code == 503
        assert "answering a request" in answer.json()["error"]["message"]


def test_the_context_that_there_is_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FakeChat, "context_tokens", property(lambda one: 2048 if one.rung is Rung.HOT else None), False)
    with serving(fake_pool(["llm", "asr"])) as running:

        def told() -> dict[str, Any]:
            return {one["model_type"]: one["context_tokens"] for one in running.client.get("/memory/models").json()}

        assert told() == {"llm": None, "asr": None}
        running.client.post("/memory/preload", json={"engines": ["llm", "asr"]}).raise_for_status()
        assert told() == {"llm": 2048, "asr": None}


def test_an_engine_that_is_named_many_times_is_loaded_once(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    gate, loads = running.pool.gates["asr"], []
    load = gate.preload_in_turn
    monkeypatch.setattr(gate, "preload_in_turn", lambda: loads.append(1) or load())
    answer = running.client.post("/memory/preload", json={"models": [{"model_type": "asr"}] * 64})
    assert answer.json() == {"results": {"asr:fake-asr": True}}
    assert len(loads) == 1


def test_more_models_than_a_device_has_are_refused_before_they_are_looked_up(running: Running) -> None:
    for wanted in ({"models": [{"name": "fake-tts"}] * 65}, {"engines": ["tts"] * 65}):
        answer = running.client.post("/memory/preload", json=wanted)
        assert answer.status_code == 400
        assert "the limit is 64" in answer.json()["error"]["message"]


def test_a_model_that_is_removed_meanwhile_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(fake_pool(["llm", "asr"])) as running:
        pool = running.pool

        async def evict(model: str) -> bool:
            await pool.remove(model)
            return True

        async def preload(models: Iterable[str]) -> dict[str, bool]:
            return {model: await evict(model) for model in models}

        monkeypatch.setattr(pool, "evict", evict)
        monkeypatch.setattr(pool, "preload", preload)
        assert running.client.post("/memory/evict/asr").json() == {"status": "evicted", "model_type": "asr"}
        loaded = running.client.post("/memory/preload", json={"engines": ["llm"]})
        assert loaded.json() == {"results": {"llm:fake-llm": True}}
