"""GET /api/tags and /api/ps, and POST /api/show."""

from __future__ import annotations

import datetime
import math
from pathlib import Path
from typing import Any

from support.gates import make_gate
from support.managed import managed, model
from support.server import fake_pool, serving
from support.store import GGUF, pulled

from edgeserve.api.ollama.lists import remaining
from edgeserve.residency.monitor import IdlePolicy


def test_tags_hold_the_models_that_answer_in_text_or_vectors() -> None:
    with serving(fake_pool(["tts", "llm", "vision", "embedding"], abilities="thinking")) as running:
        found = running.client.get("/api/tags").json()["models"]
    assert [one["name"] for one in found] == ["fake-llm:latest", "fake-vision:latest", "fake-embedding:latest"]
    first = found[0]
    assert first["model"] == first["name"]
    assert len(first["digest"]) == 64
    assert int(first["digest"], 16)
    datetime.datetime.fromisoformat(first["modified_at"])
    assert first["details"] == {
        "parent_model": "",
        "format": "fake",
        "family": "fake",
        "families": ["fake"],
        "parameter_size": "4.3B",
        "quantization_level": "Q4_K_M",
        "context_length": 1024,
        "embedding_length": 8,
    }
    assert [one["capabilities"] for one in found] == [
        ["completion", "tools", "thinking"],
        ["completion", "tools", "vision", "thinking"],
        ["embedding"],
    ]


def test_tags_of_a_server_without_models() -> None:
    with serving(fake_pool(["tts"])) as running:
        assert running.client.get("/api/tags").json() == {"models": []}
        assert running.client.head("/api/tags").status_code == 200
        assert running.client.get("/api/ps").json() == {"models": []}


def test_tags_hold_pulled_models_that_are_served_on_demand(tmp_path: Path) -> None:
    store = pulled(tmp_path / "models", "pulled")
    for serve, names in (("configured", ["fake-llm:latest"]), ("stored", ["fake-llm:latest", "pulled:latest"])):
        with managed({"llm": model()}, store, server={"serve": serve}) as (running, _):
            found = running.client.get("/api/tags").json()["models"]
        assert [one["name"] for one in found] == names
    assert found[1]["size"] == len(GGUF)


def test_ps_holds_what_is_hot_the_longest_to_stay_first() -> None:
    with serving(fake_pool(["llm", "tts", "vision"])) as running:
        client = running.client
        assert client.get("/api/ps").json() == {"models": []}
        asked = datetime.datetime.now(datetime.UTC)
        client.post("/api/generate", json={"model": "llm", "keep_alive": "10m"}).raise_for_status()
        client.post("/api/generate", json={"model": "vision", "keep_alive": -1}).raise_for_status()
        first, second = client.get("/api/ps").json()["models"]
        told = datetime.datetime.now(datetime.UTC)
    assert (first["name"], second["name"]) == ("fake-vision:latest", "fake-llm:latest")
    assert set(first) >= {"name", "model", "size", "digest", "details", "expires_at", "size_vram"}
    assert first["size"] > 0
    assert datetime.datetime.fromisoformat(first["expires_at"]).year > 2200
    expires = datetime.datetime.fromisoformat(second["expires_at"]) - datetime.timedelta(minutes=10)
    apart = datetime.timedelta(seconds=1)  # the server reads two clocks, one after the other
    assert asked - apart <= expires <= told + apart


def test_the_time_that_is_left() -> None:
    gate: Any = make_gate(clock=lambda: 100.0)
    policy = IdlePolicy(warm_after=60, idle_timeout=300)
    assert remaining(gate, policy, 110.0) == 50
    assert remaining(gate, policy, 500.0) == 0
    gate.acquire(keep_alive=20)
    assert remaining(gate, policy, 500.0) == 20
    gate.release()
    assert remaining(gate, policy, 105.0) == 15
    gate.pinned = True
    assert remaining(gate, policy, 105.0) == math.inf
    gate.stop()


def test_show_has_a_model_in_full() -> None:
    with serving(fake_pool(["llm"], temperature=0.5, system="short")) as running:
        for body in ({"model": "fake-llm"}, {"name": "llm:latest", "verbose": True}):
            found = running.client.post("/api/show", json=body).json()
            assert found["model_info"] == {
                "general.architecture": "fake",
                "general.parameter_count": 4_300_000_000,
                "fake.context_length": 1024,
                "fake.embedding_length": 8,
                "fake.words": 7,
            }
            assert found["capabilities"] == ["completion", "tools"]
            assert (found["template"], found["system"]) == ("{{ messages }}", "short")
            assert found["parameters"].split() == ["temperature", "0.5"]
            assert found["details"]["family"] == "fake"
            datetime.datetime.fromisoformat(found["modified_at"])
        answer = running.client.post("/api/show", json={"model": "gone"})
        assert (answer.status_code, answer.json()["error"][:23]) == (404, "model 'gone' not found,")
        assert running.client.post("/api/show", json={"model": ""}).status_code == 400


def test_show_names_the_model_for_copilot() -> None:
    with serving(fake_pool(["llm"])) as running:
        copilot = {"User-Agent": "GitHubCopilotChat/0.31.0"}
        found = running.client.post("/api/show", json={"model": "llm"}, headers=copilot).json()
    assert found["model_info"]["general.basename"] == "llm"
