"""Properties of a model."""

from __future__ import annotations

import httpx
from support.server import fake_pool, serving


def test_properties_are_told_without_loading() -> None:
    with serving(fake_pool(["llm", "vision"], context=77, temperature=0.3)) as running:
        told = running.client.get("/props").json()
        assert told["default_generation_settings"] == {"n_ctx": 77, "params": {"temperature": 0.3}}
        assert (told["model_alias"], told["total_slots"], told["is_sleeping"]) == ("fake-llm", 1, True)
        assert told["modalities"] == {"vision": False, "audio": False}
        assert running.client.get("/props?model=vision&autoload=false").json()["modalities"]["vision"] is True
        assert running.client.get("/v1/health").json()["rungs"]["vision"] != "hot"
        running.client.post("/v1/chat", json={"prompt": "hello"})
        assert running.client.get("/props").json()["is_sleeping"] is False


def test_properties_of_nobody_are_refused(client: httpx.Client) -> None:
    assert client.get("/props?model=nobody").status_code == 404
