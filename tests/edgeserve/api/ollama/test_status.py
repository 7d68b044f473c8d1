"""The routes by which clients recognise an Ollama server, and its refusals."""

from __future__ import annotations

import re

import httpx
import pytest
from support.server import fake_pool, serving


@pytest.mark.parametrize("accept", ["*/*", "text/plain", ""])
def test_a_probe_of_the_root_finds_ollama(client: httpx.Client, accept: str) -> None:
    answer = client.get("/", headers={"Accept": accept})
    assert answer.text == "Ollama is running"
    assert answer.headers["content-type"].startswith("text/plain")
    assert answer.headers["vary"] == "Accept"
    head = client.head("/", headers={"Accept": accept})
    assert (head.status_code, head.content) == (200, b"")


def test_who_asks_for_json_gets_the_routes(client: httpx.Client) -> None:
    assert client.get("/", headers={"Accept": "application/json"}).json()["openapi"] == "/openapi.json"


def test_the_version_is_digits_and_dots(client: httpx.Client) -> None:
    version = client.get("/api/version").json()["version"]
    assert re.fullmatch(r"\d+\.\d+\.\d+", version)
    assert tuple(map(int, version.split("."))) >= (0, 13, 4)
    assert client.head("/api/version").status_code == 200
    assert client.get("/api/status").json()["cloud"]["disabled"] is True


@pytest.mark.parametrize("path", ["/api/copy", "/api/create", "/api/push", "/api/blobs/sha256:00"])
def test_making_models_is_refused_with_advice(client: httpx.Client, path: str) -> None:
    answer = client.post(path, content=b"x" * 10_000)
    assert answer.status_code == 400
    assert "not supported by this server" in answer.json()["error"]


def test_no_blob_is_here(client: httpx.Client) -> None:
    assert client.head("/api/blobs/sha256:00").status_code == 404


def test_every_error_below_api_has_ollamas_shape(client: httpx.Client) -> None:
    for answer, status in ((client.get("/api/nothing"), 404), (client.get("/api/chat"), 405)):
        assert answer.status_code == status
        assert isinstance(answer.json()["error"], str)
    with serving(fake_pool(["llm"]), api_key="sesame", max_body_mb=1) as running:
        refused = running.client.get("/api/tags")
        assert (refused.status_code, type(refused.json()["error"])) == (401, str)
        key = {"Authorization": "Bearer sesame"}
        large = running.client.post("/api/chat", content=b"x" * (2 << 20), headers=key)
        assert (large.status_code, type(large.json()["error"])) == (413, str)


def test_managing_is_the_owners(monkeypatch: pytest.MonkeyPatch, client: httpx.Client) -> None:
    monkeypatch.setattr("edgeserve.api.auth.is_loopback", lambda host: False)
    for method, path in (("POST", "/api/pull"), ("DELETE", "/api/delete")):
        answer = client.request(method, path, json={"model": "llm"})
        assert (answer.status_code, "no key is set" in answer.json()["error"]) == (403, True)
