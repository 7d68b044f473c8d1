"""The routes on fake engines: wrong fields and bodies, unknown routes, keys and unforeseen errors."""

from __future__ import annotations

import asyncio
import codecs
import contextlib

import httpx
import pytest
from starlette.routing import Route, WebSocketRoute
from support.answers import error
from support.server import fake_pool, serving, small_pool

from edgeserve.api.routes import routes
from edgeserve.system.readings import Readings


def test_health_models_and_root(client: httpx.Client) -> None:
    health = client.get("/v1/health").json()
    assert health["status"] == "ok"
    assert health["engines"] == {"asr": True, "llm": True, "rerank": True, "tts": True, "vision": True}
    assert health["system"]["memory_total_bytes"] > 0
    models = client.get("/v1/models").json()
    assert models["object"] == "list"
    assert {one["type"] for one in models["models"]} == {"llm", "vision", "asr", "tts", "rerank"}
    assert {one["id"] for one in models["data"]} >= {"fake-llm", "fake-tts"}
    assert client.get("/", headers={"Accept": "application/json"}).json()["openapi"] == "/openapi.json"


@pytest.mark.parametrize(
    ("path", "body", "param", "told"),
    [
        ("/v1/chat", {"prompt": ""}, "prompt", "must not be empty"),
        ("/v1/chat", {"prompt": 3}, "prompt", "must be a string, not the number 3"),
        ("/v1/chat", {"prompt": "x", "max_length": 0}, "max_length", "must lie between 1"),
        ("/v1/chat", {"prompt": "x", "max_length": 1.5}, "max_length", "whole number"),
        ("/v1/chat", {"prompt": "x", "max_length": True}, "max_length", "must be a number"),
        ("/v1/chat", {"prompt": "x", "messages": [{"role": "user", "content": "y"}]}, "prompt", "beside messages"),
        ("/v1/chat", {"messages": []}, "messages", "at least one"),
        ("/v1/chat", {"messages": [{"role": "robot", "content": "y"}]}, "messages[0].role", "must be one of"),
        ("/v1/tts/synthesize", {"text": "hi", "speed": 9}, "speed", "between 0.25 and 4"),
        ("/v1/tts/synthesize", {"text": "hi.", "voice": "bass"}, "voice", "voices: tone, hum"),
        ("/v1/tts/synthesize", {"text": "x" * 20_000}, "text", "20000 characters; the limit is 16384"),
    ],
)
def test_a_wrong_field_is_named(client: httpx.Client, path: str, body: object, param: str, told: str) -> None:
    failure = error(client.post(path, json=body), 400)
    assert failure["param"] == param
    assert told in failure["message"]


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b"{", "not valid JSON"),
        (b"[1]", "must be a JSON object, not a list"),
        (b"\xff\xfe", "not UTF-8"),
        (b'{"prompt": NaN}', "NaN is not a JSON number"),
        (b'{"prompt":' + b"[" * 200 + b"]" * 200 + b"}", "levels deep"),
        (b'{"prompt":' + b"[" * 100_000, "levels deep"),
        (b"", "not valid JSON"),
        (
            b'{"prompt": "a", "max_length": %s}' % (b"9" * 400),
            "must lie between 1 and 1e+06, not 999999999999999999999…",
        ),
        (b'{"prompt": "a", "max_length": %s}' % (b"9" * 5000), "a number that is too long"),
        (b'{"prompt": "a", "max_length": 1e400}', "must lie between 1 and 1e+06, not inf"),
        (rb'{"prompt": "\ud83d"}', r"\ud83d alone, which is half of a character"),
        (rb'{"\uDE00": 1}', r"\ude00 alone"),
    ],
)
def test_a_broken_body_is_refused(client: httpx.Client, body: bytes, told: str) -> None:
    assert told in error(client.post("/v1/chat", content=body), 400)["message"]


def test_a_body_may_begin_with_a_byte_order_mark(client: httpx.Client) -> None:
    answer = client.post("/v1/chat", content=codecs.BOM_UTF8 + b'{"prompt": "hi"}')
    assert (answer.status_code, answer.json()) == (200, {"text": "hi"})


def test_a_body_beyond_the_limit_is_refused_declared_or_not() -> None:
    with serving(fake_pool(["llm", "asr"]), max_body_mb=1) as running:
        large = b"x" * (2 << 20)
        assert "limit is 1 MB" in error(running.client.post("/v1/chat", content=large), 413)["message"]
        chunks = (b"x" * 65536 for _ in range(64))
        assert error(running.client.post("/v1/chat", content=chunks), 413)["code"] == "too_large"
        upload = running.client.post("/v1/transcribe/file", files={"audio": large})
        assert error(upload, 413)["code"] == "too_large"
        assert running.client.post("/v1/chat", json={"prompt": "on"}).status_code == 200


def test_a_small_machine_refuses_bodies_that_settings_may_allow() -> None:
    large = b"x" * (9 << 20)
    with serving(small_pool(250, {"asr": {}})) as running:
        upload = running.client.post("/v1/transcribe/file", files={"audio": large})
        assert "limit is 7 MB" in error(upload, 413)["message"]
    with serving(small_pool(250, {"asr": {}}), max_body_mb=16) as running:
        assert running.client.post("/v1/transcribe/file", files={"audio": large}).status_code == 415


def test_engines_that_are_not_configured_say_how_to_add_them() -> None:
    with serving(fake_pool(["llm"])) as running:
        answer = running.client.post("/v1/tts/synthesize", json={"text": "hi"})
        failure = error(answer, 404)
        assert failure["code"] == "engine_not_configured"
        assert '[tts]\nmodel = "hibari"' in failure["message"]


def test_unknown_routes_and_methods_have_the_same_shape(client: httpx.Client) -> None:
    assert error(client.get("/v2/chat"), 404)["code"] == "not_found"
    answer = client.get("/v1/chat")
    assert error(answer, 405)["message"] == "/v1/chat does not take GET"
    assert answer.headers["allow"] == "POST"


def test_request_ids_are_taken_over_or_made(client: httpx.Client) -> None:
    assert client.get("/v1/health", headers={"X-Request-Id": "mine-7"}).headers["x-request-id"] == "mine-7"
    made = client.get("/v1/health", headers={"X-Request-Id": "not fit\tfor a log"}).headers["x-request-id"]
    assert made.startswith("req_")


def test_a_key_is_asked_for_everywhere_but_the_health_check() -> None:
    with serving(fake_pool(["llm"]), api_key="sesame") as running:
        client = running.client
        assert client.get("/v1/health").status_code == 200
        answer = client.post("/v1/chat", json={"prompt": "hi"})
        assert error(answer, 401)["code"] == "invalid_api_key"
        assert answer.headers["www-authenticate"] == "Bearer"
        wrong = {"Authorization": "Bearer open"}
        assert client.post("/v1/chat", json={"prompt": "hi"}, headers=wrong).status_code == 401
        assert client.post("/v1/chat", json={"prompt": "hi"}, headers={"Authorization": "sesame"}).status_code == 401
        for right in ("Bearer sesame", "bearer sesame"):
            answer = client.post("/v1/chat", json={"prompt": "hi"}, headers={"Authorization": right})
            assert answer.json() == {"text": "hi"}
        for header in ("x-api-key", "api-key", "X-Api-Key"):
            assert client.post("/v1/chat", json={"prompt": "hi"}, headers={header: "sesame"}).status_code == 200
            assert client.post("/v1/chat", json={"prompt": "hi"}, headers={header: "open"}).status_code == 401
        both = {"Authorization": "Bearer placeholder", "x-api-key": "sesame"}
        assert client.post("/v1/chat", json={"prompt": "hi"}, headers=both).status_code == 200
        assert client.get("/health").json()["status"] == "ok"
        assert client.get("/version").status_code == 401


def test_the_health_waits_for_no_reading_of_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel may hold a reading up while a worker maps its model, and the event loop with it."""

    pool = fake_pool(["llm"])
    with serving(pool) as running:
        probe = pool.governor.probe
        last, on_loop = probe.read_quick(), list[object]()

        def read() -> Readings:
            with contextlib.suppress(RuntimeError):  # other threads have no loop, and may read
                on_loop.append(asyncio.get_running_loop())
            return last

        with monkeypatch.context() as patched:
            patched.setattr(probe, "_clock", lambda: last.at + 3600)  # the last reading is old
            patched.setattr(probe, "read_quick", read)
            answers = [running.client.get(path) for path in ("/v1/health", "/v1/models")]
        assert [answer.status_code for answer in answers] == [200, 200]
        assert on_loop == []


@pytest.mark.unforeseen
def test_an_unforeseen_error_is_answered_logged_and_survived(caplog: pytest.LogCaptureFixture) -> None:
    with serving(fake_pool(["llm"])) as running:

        def broken() -> int:
            raise ZeroDivisionError("secret inside")

        running.app.state.memory_total = broken
        answer = running.client.get("/v1/health", headers={"X-Request-Id": "mine-8"})
        failure = error(answer, 500)
        assert answer.headers["x-request-id"] == "mine-8"
        assert "secret" not in failure["message"]
        assert "ZeroDivisionError: secret inside" in caplog.text
        assert running.client.post("/v1/chat", json={"prompt": "on"}).json() == {"text": "on"}


def test_each_route_has_an_endpoint_of_its_own() -> None:
    """The figures know a route by its endpoint."""
    made = routes()
    endpoints = {route.endpoint for route in made if isinstance(route, (Route, WebSocketRoute))}
    assert len(endpoints) == len(made)
