"""Paths as clients write them."""

from __future__ import annotations

import httpx
from support.cases import each
from support.server import fake_pool, serving
from websockets.sync.client import connect

from edgeserve.api.paths import Paths, without_prefix
from edgeserve.api.routes import ENTRIES, LIVE

ROUTES = {LIVE, *(one.path for one in ENTRIES)}


async def nothing(*_: object) -> None: ...


@each(
    ("written", "meant"),
    [
        ("/", "/"),
        ("//", "/"),
        ("/v1/models/", "/v1/models"),
        ("//v1//models", "/v1/models"),
        ("/v1/models/org/name/", "/v1/models/org/name"),
        ("/chat/completions", "/v1/chat/completions"),
        ("/chat/completions/", "/v1/chat/completions"),
        ("/embeddings", "/v1/embeddings"),
        ("/audio/speech", "/v1/audio/speech"),
        ("/audio/transcriptions", "/v1/audio/transcriptions"),
        ("/health", "/v1/health"),
        ("/transcribe/live", LIVE),
        ("/v1/v1/chat/completions", "/v1/chat/completions"),
        ("/v1/v1/v1/chat", "/v1/v1/chat"),
        ("/models", "/models"),  # llama-server's list is a route itself
        ("/rerank", "/rerank"),
        ("/memory/stats", "/memory/stats"),
        ("/v1", "/v1"),
        ("/v1/nowhere", "/v1/nowhere"),
        ("/v10/chat", "/v10/chat"),
    ],
)
def test_a_path_means_a_route(written: str, meant: str) -> None:
    assert Paths(nothing, without_prefix(ROUTES)).meant(written) == meant


def test_every_short_path_leads_to_a_route_and_hides_none() -> None:
    short = without_prefix(ROUTES)
    assert set(short.values()) <= ROUTES
    assert not set(short) & ROUTES
    assert not [path for path in short if "{" in path]


def test_requests_arrive_by_every_writing(client: httpx.Client) -> None:
    body = {"messages": [{"role": "user", "content": "hello"}]}
    paths = ("/v1/chat/completions", "/v1/chat/completions/", "//v1/chat//completions", "/chat/completions")
    answers = [client.post(f"{client.base_url}".rstrip("/") + path, json=body) for path in paths]
    assert [one.status_code for one in answers] == [200] * len(paths)
    assert client.get("/v1/models/").json() == client.get("/v1/models").json()
    assert client.get("/health/").json()["status"] == "ok"
    refused = client.get("/chat/completions")
    assert (refused.status_code, refused.headers["allow"]) == (405, "POST")


def test_a_websocket_arrives_without_the_prefix() -> None:
    with (
        serving(fake_pool(["asr"])) as running,
        connect(f"{running.url.replace('http', 'ws', 1).rstrip('/')}/transcribe/live/") as socket,
    ):
        assert '"started"' in str(socket.recv(timeout=10))


def test_no_writing_of_a_path_passes_the_key_by() -> None:
    with serving(fake_pool(["llm"]), api_key="sesame") as running:
        for path in ("//v1/models", "/v1/models/", "/v1/health/../models", "/v1//memory/stats", "/v1/v1/models"):
            assert running.client.get(f"{running.url.rstrip('/')}{path}").status_code in (401, 404), path
        assert running.client.get("/v1/models/").status_code == 401
