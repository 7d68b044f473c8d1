"""The memory routes and the OpenAPI document."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest
from openapi_spec_validator import validate
from support.server import Running, fake_pool, serving, small_pool

from edgeserve.api.routes import ENTRIES, routes
from edgeserve.engine import Rung
from edgeserve.memory.policy import MB


def test_the_reports_have_their_shapes(client: httpx.Client) -> None:
    stats = client.get("/memory/stats").json()
    assert {"total_mb", "budget_usable_mb", "pressure_level", "pss_anon_mb", "pss_file_mb", "budget_winner"} <= set(
        stats
    )
    assert {one["model_type"] for one in client.get("/memory/models").json()} == {"llm", "vision", "asr", "tts"}
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


@pytest.mark.parametrize("cache_mb", [300, 0])
def test_an_idle_prefix_cache_goes_before_any_engine_does(cache_mb: int) -> None:
    """Chat and speech fit together in 1000 MB, but not with 300 MB of cached prefixes."""
    chat, speech = {"private_mb": 200.0, "prefix_cache_mb": cache_mb}, {"private_mb": 500.0}
    with serving(small_pool(1000, {"llm": chat, "tts": speech})) as running:
        assert running.client.post("/v1/chat", json={"prompt": "hello"}).status_code == 200
        llm = running.pool.gates["llm"]
        assert llm.savings() == {"prefix_cache": cache_mb * MB}
        assert running.client.post("/v1/tts/synthesize", json={"text": "hello"}).status_code == 200
        assert llm.rung is Rung.HOT
        assert llm.savings()["prefix_cache"] <= 100 * MB
        assert ("shed prefix_cache" in llm.engine.steps) is bool(cache_mb)  # type: ignore[attr-defined]
        assert running.client.get("/memory/evictions").json() == []
        # 100 each are mapped.
        kept = llm.savings()["prefix_cache"]
        assert running.pool.governor.books.booked().host == (200 + 500 + 2 * 100) * MB + kept


def test_the_document_is_valid_and_has_every_route_and_no_other(client: httpx.Client) -> None:
    document: Any = client.get("/openapi.json").json()
    validate(document)
    described = {(method.upper(), path) for path, item in document["paths"].items() for method in item}
    served = {(method, re.sub(r":\w+}", "}", route.path)) for route in routes() for method in route.methods or ()}
    assert described == {pair for pair in served if pair[0] != "HEAD"}
    assert len(described) == len(ENTRIES)
