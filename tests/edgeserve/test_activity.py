"""The work of a server, as its attendants see it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket

import pytest
from support.gates import HeldAnswer
from support.server import fake_pool, serving, until

from edgeserve import activity as activities
from edgeserve.activity import Activity


def test_requests_and_live_sessions_are_work_and_idle_connections_are_none() -> None:
    with serving(fake_pool(["llm", "asr"])) as running, HeldAnswer(running.pool.gates["llm"]) as held:
        activity = Activity(running.server, running.app.state)
        assert not activity.busy
        running.client.get("/v1/health")
        until(lambda: not activity.busy and activity.asked == 1)  # the connection waits for another request
        asked = activity.asked
        body = {"messages": [{"role": "user", "content": "one two three four"}], "stream": True}
        with running.client.stream("POST", "/v1/chat/completions", json=body) as answer:
            assert activity.busy
            held.go.set()
            answer.read()
        until(lambda: not activity.busy and activity.asked == asked + 1)
        session = running.client.post("/v1/transcribe/stream").json()["session"]
        assert activity.busy
        running.client.delete(f"/v1/transcribe/stream/{session}")
        until(lambda: not activity.busy)
        assert not activity.failing


def test_a_connection_of_the_last_moment_is_served(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activities, "LOOK_SECONDS", 0.5)
    request = b"GET /v1/health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
    with serving(fake_pool(["llm"])) as running:
        host, port = running.client.base_url.host, running.client.base_url.port or 0
        with contextlib.closing(socket.create_connection((host, port), timeout=10)) as link:
            until(lambda: len(running.server.connections) == 1)
            activity = Activity(running.server, running.app.state)

            def last() -> None:
                """On the server's loop, so that the request comes in time on any machine."""
                activity.end_idle()
                asyncio.get_running_loop().call_later(0.05, link.sendall, request)

            running.server._loop.call_soon_threadsafe(last)  # type: ignore[union-attr]
            got = b""
            while piece := link.recv(4096):
                got += piece
        assert json.loads(got.partition(b"\r\n\r\n")[2])["status"] == "ok"
        until(lambda: running.server.should_exit)


def test_a_stream_without_an_end_does_not_keep_an_idle_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(activities, "LAST_SECONDS", 0.1)
    monkeypatch.setattr(activities, "LOOK_SECONDS", 0.05)
    with serving(fake_pool(["llm"])) as running, running.client.stream("GET", "/memory/feed") as stream:
        events = stream.iter_lines()
        assert next(events)
        activity = Activity(running.server, running.app.state)
        running.server._loop.call_soon_threadsafe(activity.end_idle)  # type: ignore[union-attr]
        until(lambda: running.server.should_exit)
        assert any("the server is shutting down" in line for line in events)
