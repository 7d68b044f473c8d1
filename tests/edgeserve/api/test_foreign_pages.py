"""Foreign names and pages over HTTP: a server without a key obeys none that its rules do not know."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from typing import Any

import httpx
import pytest
from support.cases import each
from support.gates import engine_of
from support.refusals import told
from support.server import Running, fake_pool, serving
from support.sounds import FORMS, encoded, melody

from edgeserve.api.routes import ENTRIES
from edgeserve.fit import calibration
from edgeserve.fit.calibration import Calibration
from edgeserve.fit.speed import Rates
from edgeserve.system import cpu


@pytest.fixture(scope="module")
def open_server() -> Iterator[Running]:
    known = Calibration(cpu.name(), cpu.kind(), Rates(10e9, 50e9))
    names = {"allowed_hosts": ("named.example",), "cors_origins": ("https://app.example.org",)}
    with pytest.MonkeyPatch.context() as patch, serving(fake_pool(), **names) as running:
        patch.setattr(calibration, "measure", lambda *given: known)  # which takes a second and more
        yield running


CHAT = b'{"prompt": "hello"}'


def ask(running: Running, content_type: str = "application/json", **headers: str) -> httpx.Response:
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    return running.client.post("/v1/chat", content=CHAT, headers={"Content-Type": content_type, **given})


def path_of(entry: Any) -> str:
    return str(
        entry.path.replace(":path}", "}").format(
            engine="asr", session="x", model="asr", slot=0, digest="x", response="x"
        )
    )


@each("entry", [one for one in ENTRIES if one.method != "GET"])
def test_no_route_obeys_a_foreign_page(open_server: Running, entry: Any) -> None:
    steps = [list(engine_of(gate).steps) for gate in open_server.pool.gates.values()]
    for headers in ({"Origin": "https://far.example"}, {"Origin": "null"}, {"Sec-Fetch-Site": "cross-site"}):
        answer = open_server.client.request(entry.method, path_of(entry), headers=headers)
        assert answer.status_code == 403, answer.text
        error = told(answer)
        assert error["code"] in ("forbidden", None)
        assert "cors_origins" in error["message"]
        assert "access-control-allow-origin" not in answer.headers
    assert steps == [list(engine_of(gate).steps) for gate in open_server.pool.gates.values()]


@pytest.mark.parametrize("path", [one.path for one in ENTRIES if one.method == "GET" and "{" not in one.path])
def test_no_reading_moves_anything(open_server: Running, path: str) -> None:
    """Pages of other sites may send GETs: their browser keeps the answers from them."""
    client, gates = open_server.client, open_server.pool.gates.values()
    before = [(gate.rung, gate.leases) for gate in gates]
    with client.stream("GET", path, headers={"Origin": "https://far.example"}) as answer:  # one of them has no end
        assert answer.status_code == 200
    assert [(gate.rung, gate.leases) for gate in gates] == before
    assert client.get("/memory/evictions").json() == []


def test_a_name_that_was_made_to_point_here_reads_nothing(open_server: Running) -> None:
    for path in ("/", "/v1/health", "/v1/models", "/memory/stats", "/nowhere"):
        answer = open_server.client.get(path, headers={"Host": "rebound.example"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (403, "forbidden")
    assert open_server.client.get("/v1/health", headers={"Host": "named.example:9"}).status_code == 200
    assert open_server.client.get("/v1/health", headers={"Host": socket.gethostname()}).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonx"])
def test_a_browser_says_that_it_sends_json(open_server: Running, kind: str) -> None:
    own = open_server.url.rstrip("/")
    for headers in (
        {"Origin": own},
        {"Sec-Fetch-Site": "none"},
        {"Sec-Fetch-Mode": "cors"},
        {"Sec-Fetch-Dest": "empty"},
    ):
        answer = ask(open_server, kind, **headers)
        assert (answer.status_code, answer.json()["error"]["code"]) == (415, "unsupported_media")
        assert "application/json" in answer.json()["error"]["message"]
        assert ask(open_server, "Application/JSON; charset=utf-8", **headers).status_code == 200
        assert ask(open_server, "application/vnd.api+json", **headers).status_code == 200
    assert ask(open_server, kind).json() == {"text": "hello"}, "a program may say what it likes"


def test_listed_pages_read_answers_and_errors(open_server: Running) -> None:
    page = "https://app.example.org"
    wav = encoded(melody(1), FORMS["wav"])
    client = open_server.client
    for answer, status in (
        (ask(open_server, Origin=page, Sec_Fetch_Site="cross-site"), 200),
        (client.get("/v1/models", headers={"Origin": page}), 200),
        (client.post("/v1/chat", json={}, headers={"Origin": page}), 400),
        (client.get("/nowhere", headers={"Origin": page}), 404),
        (client.put("/v1/chat", headers={"Origin": page}), 405),
        (client.get("/v1/models", headers={"Origin": page, "Host": "rebound.example"}), 403),
        (client.post("/v1/transcribe/file", files={"audio": wav}, headers={"Origin": page}), 200),
    ):
        assert answer.status_code == status, answer.text
        assert answer.headers["access-control-allow-origin"] == page
        assert "X-Request-Id" in answer.headers["access-control-expose-headers"]
        assert "Origin" in answer.headers["vary"]
    assert "access-control-allow-origin" not in client.get("/", headers={"Origin": "https://far.example"}).headers


@pytest.mark.unforeseen
def test_listed_pages_can_read_unforeseen_errors() -> None:
    with serving(fake_pool(["llm"]), cors_origins=("https://app.example.org",)) as running:
        running.app.state.pool = None
        answer = running.client.get("/v1/models", headers={"Origin": "https://app.example.org"})
    assert answer.status_code == 500
    assert answer.headers["access-control-allow-origin"] == "https://app.example.org"


@pytest.mark.parametrize("api_key", ["", "sesame"])
def test_a_preflight_is_answered_for_listed_pages_without_a_key(api_key: str) -> None:
    asking = {
        "Origin": "https://app.example.org",
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type,x-api-key,anthropic-version,x-stainless-os",
        "Access-Control-Request-Private-Network": "true",
    }
    with serving(fake_pool(["llm"]), cors_origins=("https://app.example.org",), api_key=api_key) as running:
        answer = running.client.options("/v1/chat/completions", headers=asking)
        assert answer.status_code == 204
        assert answer.headers["access-control-allow-origin"] == "https://app.example.org"
        assert "POST" in answer.headers["access-control-allow-methods"]
        assert answer.headers["access-control-allow-headers"] == asking["Access-Control-Request-Headers"]
        assert answer.headers["access-control-allow-private-network"] == "true"
        assert answer.headers["x-request-id"]
        other = running.client.options("/v1/chat", headers=asking | {"Origin": "https://far.example"})
        assert other.status_code == (401 if api_key else 405)
        assert "access-control-allow-origin" not in other.headers
        refused = running.client.post("/v1/chat", json={}, headers={"Origin": "https://app.example.org"})
        assert refused.status_code == (401 if api_key else 400)
        assert refused.headers["access-control-allow-origin"] == "https://app.example.org"


def test_with_a_key_any_name_and_page_that_has_it_may() -> None:
    headers = {"Authorization": "Bearer sesame", "Host": "ai.example.net", "Origin": "https://far.example"}
    with serving(fake_pool(["llm"]), api_key="sesame") as running:
        assert running.client.post("/v1/chat", json={"prompt": "hello"}, headers=headers).status_code == 200


def test_an_absolute_target_does_not_stand_in_place_of_the_host(open_server: Running) -> None:
    port = open_server.client.base_url.port
    told = b""
    with socket.create_connection(("127.0.0.1", port or 0), timeout=10) as client:
        client.sendall(b"GET http://127.0.0.1/v1/health HTTP/1.1\r\nHost: rebound.example\r\nConnection: close\r\n\r\n")
        while piece := client.recv(65536):
            told += piece
    assert told.startswith(b"HTTP/1.1 403")
    assert json.loads(told.partition(b"\r\n\r\n")[2])["error"]["code"] == "forbidden"
