"""Live transcription over a WebSocket, and the clients that may open one."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Iterator
from socket import SHUT_RDWR
from typing import Any

import pytest
from benchmarks.fuzz.talk import TEXT, frame
from support.gates import engine_of
from support.server import Running, fake_pool, serving, until
from support.sound import silence, speech
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection, connect

from edgeserve.api.live import socket as live_socket

PATH = "/v1/transcribe/live"


@pytest.fixture
def live() -> Iterator[Running]:
    with serving(fake_pool(["asr"]), live_sessions=4) as running:
        yield running


def dial(running: Running, query: str = "", **options: Any) -> ClientConnection:
    return connect(f"{running.url.replace('http', 'ws', 1)}{PATH}{query}", **options)


def told(socket: ClientConnection, kind: str) -> Any:
    """The next message of this kind. Messages before it must be text."""
    while (message := json.loads(socket.recv(timeout=10)))["type"] != kind:
        assert message["type"] == "text", message
    return message


def command(socket: ClientConnection, kind: str, **fields: Any) -> None:
    socket.send(json.dumps({"type": kind, **fields}))


def refused(running: Running, query: str = "", **options: Any) -> tuple[int, Any]:
    with pytest.raises(InvalidStatus) as caught:
        dial(running, query, **options)
    response = caught.value.response
    return response.status_code, json.loads(response.body)["error"]


def test_text_comes_by_itself_and_flush_tells_the_rest(live: Running) -> None:
    with dial(live, "?language=en") as socket:
        assert told(socket, "started")["status"] == "started"
        socket.send(speech(2))
        step = told(socket, "text")
        assert (step["text"], step["partial"], step["is_final"]) == ("", "1 2", False)
        socket.send(speech(1))
        step = told(socket, "text")
        assert (step["text"], step["partial"], step["transcript"]) == ("1 2", " 3", "1 2")
        socket.send(silence(1))
        step = told(socket, "text")
        assert (step["text"], step["partial"], step["is_final"]) == (" 3", "", True)
        socket.send(speech(0.3))
        command(socket, "flush")
        last = told(socket, "flushed")
        assert last["transcript"] == "1 2 3 1"
        assert (last["text"], last["is_final"], last["duration"]) == (" 1", True, 4.3)
        socket.send(speech(1))
        command(socket, "flush")
        assert told(socket, "flushed")["transcript"] == "1"
        command(socket, "close")
        with pytest.raises(ConnectionClosed) as closed:
            told(socket, "flushed")
        assert closed.value.rcvd is not None
        assert closed.value.rcvd.code == 1000
    until(lambda: len(live.app.state.sessions) == 0)


def test_a_request_without_a_handshake_is_answered_426(live: Running) -> None:
    answer = live.client.get(PATH)
    assert answer.status_code == 426
    assert answer.headers["upgrade"] == "websocket"
    assert answer.headers["connection"].lower() == "upgrade"
    error = answer.json()["error"]
    assert error["message"].startswith(f"{PATH} is a WebSocket: connect to it with ws://")
    assert (error["type"], error["code"], error["param"]) == ("invalid_request_error", "invalid_request", None)
    assert live.client.post(PATH).status_code == 405
    assert live.client.get("/v1/health").status_code == 200


@pytest.mark.slow
def test_a_lost_client_frees_its_session_and_the_engine() -> None:
    with serving(fake_pool(["asr"], delay=0.2)) as running:
        with dial(running) as socket:
            socket.send(speech(10))
            until(lambda: running.pool.gates["asr"].leases == 1)
            socket.socket.shutdown(SHUT_RDWR)
        until(lambda: len(running.app.state.sessions) == 0)
        until(lambda: running.pool.gates["asr"].leases == 0)


def test_an_engine_that_is_behind_is_told_once_and_sound_is_left_out(
    live: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live_socket, "PATIENCE_SECONDS", 0.05)
    engine: Any = engine_of(live.pool.gates["asr"])
    free, transcribe = threading.Event(), engine.transcribe

    def slow(request: Any, cancel: Any) -> Iterator[Any]:
        free.wait()
        yield from transcribe(request, cancel)

    engine.transcribe = slow
    with dial(live) as socket:
        for _ in range(6):
            socket.send(speech(10))
        error = told(socket, "started") and told(socket, "error")["error"]
        assert (error["code"], "30 s of sound wait" in error["message"]) == ("queue_full", True)
        socket.send('{"type": "nothing"}')
        assert "must be one of start" in told(socket, "error")["error"]["message"], "the other five were not told of"
        free.set()
        command(socket, "flush")
        assert told(socket, "flushed")["duration"] == 30


def test_frames_after_a_close_are_not_read(live: Running) -> None:
    close = frame(TEXT, b'{"type": "close"}')
    with dial(live) as socket:
        socket.socket.sendall(close * 2 + frame(TEXT, b"no JSON") + close)
        told(socket, "started")
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=10)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1000


@pytest.mark.unforeseen
def test_an_unforeseen_error_closes_the_connection_with_its_own_code(live: Running) -> None:
    def fail(*arguments: Any) -> None:
        raise RuntimeError("as arranged")

    live.app.state.sessions.using = fail
    with dial(live) as socket:
        told(socket, "started")
        socket.send(speech(1))
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=10)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1011


def test_an_opened_connection_has_its_request_id(live: Running) -> None:
    with dial(live, additional_headers={"X-Request-Id": "mine-7"}) as socket:
        assert socket.response is not None
        assert socket.response.headers["X-Request-Id"] == "mine-7"


def test_mistakes_are_told_and_the_connection_stays(live: Running) -> None:
    with dial(live) as socket:
        told(socket, "started")
        for frame, text in (
            ("flush", "a text frame is not valid JSON"),
            ("[]", "must be a JSON object"),
            ('{"type": "stop"}', "type must be one of start, flush, close, not"),
            ('{"type": "flush", "now": true}', "now is not a known field"),
            ('{"type": "start", "prompt": "\\ud800"}', "half of a character"),
            (bytes(7), "7 bytes"),
        ):
            socket.send(frame)
            assert text in told(socket, "error")["error"]["message"]
        command(socket, "start", language="en")
        told(socket, "started")
        socket.send(speech(1))
        command(socket, "flush")
        assert told(socket, "flushed")["transcript"] == "1"
        assert len(live.app.state.sessions) == 1


def test_a_frame_beyond_the_limit_ends_the_connection(live: Running) -> None:
    with dial(live) as socket:
        told(socket, "started")
        socket.send(bytes(700_000))
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=10)
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1009


def test_refusals_are_http_answers(live: Running) -> None:
    assert refused(live, "?lang=en") == (
        400,
        {
            "message": "lang is not a known field; known are: keep_alive, language, model, prompt",
            "type": "invalid_request_error",
            "code": "invalid_request",
            "param": "lang",
        },
    )
    with serving(fake_pool(["asr"], languages=["en", "de"])) as other, dial(other, "?language=de") as socket:
        status, told_ = refused(other, "?language=tlh")
        assert (status, told_["param"]) == (400, "language")
        told(socket, "started")
        command(socket, "start", language="fr")
        assert told(socket, "error")["error"]["message"] == "unknown language 'fr'; this model knows de, en"
        assert len(other.app.state.sessions) == 1
    with dial(live), dial(live):
        status, told_ = refused(live)
        assert (status, "2 live transcriptions of yours are open" in told_["message"]) == (503, True)
    with serving(fake_pool(["llm"])) as other:
        assert refused(other)[1]["code"] == "engine_not_configured"


def test_an_idle_connection_is_closed_and_told_why() -> None:
    with serving(fake_pool(["asr"]), live_idle_seconds=0.2) as running, dial(running) as socket:
        assert told(socket, "started")["expires_after"] == 0.2
        assert told(socket, "error")["error"]["code"] == "not_found"
        with pytest.raises(ConnectionClosed) as closed:
            socket.recv(timeout=10)
        assert closed.value.rcvd is not None
        assert (closed.value.rcvd.code, closed.value.rcvd.reason) == (1001, "nothing came for 0.2 s")


def test_the_key_is_asked_for() -> None:
    with serving(fake_pool(["asr"]), api_key="sesame") as running:
        assert refused(running)[0] == 401
        assert refused(running, additional_headers={"Authorization": "Bearer wrong"})[0] == 401
        headers = {"Authorization": "Bearer sesame"}
        with dial(running, additional_headers=headers, origin="https://far.example") as socket:
            told(socket, "started")


def test_a_page_of_another_site_may_not_open_one(live: Running) -> None:
    for origin in ("https://far.example", "null", live.url.replace("http", "https", 1) + "1", "http://localhost"):
        status, told_ = refused(live, origin=origin)
        assert (status, told_["code"]) == (403, "forbidden")
    for site in ("cross-site", "same-site", "tomorrow's"):
        assert refused(live, additional_headers={"Sec-Fetch-Site": site})[0] == 403
    assert len(live.app.state.sessions) == 0
    with dial(live, origin=live.url.rstrip("/")) as socket:
        told(socket, "started")


def test_the_server_ends_with_a_connection_open() -> None:
    with contextlib.ExitStack() as client:
        with serving(fake_pool(["asr"])) as running:
            socket = client.enter_context(dial(running))
            told(socket, "started")
            socket.send(speech(1))
        with pytest.raises(ConnectionClosed) as closed:
            told(socket, "never")
    assert closed.value.rcvd is not None
    assert closed.value.rcvd.code == 1012
