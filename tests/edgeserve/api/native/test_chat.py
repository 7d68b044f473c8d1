"""The native chat routes on fake engines."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from support.answers import error, events
from support.gates import engine_of
from support.server import fake_pool, serving


def test_chat_answers_text(client: httpx.Client) -> None:
    assert client.post("/v1/chat", json={"prompt": "hello there"}).json() == {"text": "hello there"}


def test_chat_takes_messages_and_max_length(client: httpx.Client) -> None:
    body = {"messages": [{"role": "user", "content": "one two three"}], "max_length": 2}
    assert client.post("/v1/chat", json=body).json() == {"text": "one two"}


def test_chat_streams_tokens_then_done(client: httpx.Client) -> None:
    answer = client.post("/v1/chat/stream", json={"prompt": "a b"})
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-cache"
    assert events(answer) == [{"token": "a"}, {"token": " b"}, {"done": True, "text": "a b"}]


def test_a_stream_that_fails_at_once_keeps_its_status() -> None:
    with serving(fake_pool(["llm"], context=2)) as running:
        answer = running.client.post("/v1/chat/stream", json={"prompt": "one two three"})
        assert error(answer, 400)["code"] == "context_length_exceeded"


def test_a_stream_that_fails_later_says_so_in_band() -> None:
    with serving(fake_pool(["llm"])) as running:
        engine: Any = engine_of(running.pool.gates["llm"])
        seen = 0

        def explode() -> None:
            nonlocal seen
            seen += 1
            if seen > 4:
                raise ZeroDivisionError

        engine.on_work = explode
        told = events(running.client.post("/v1/chat/stream", json={"prompt": "a b c d e f"}))
        assert told[0] == {"token": "a"}
        assert told[-1]["error"]["code"] == "engine_failure"
        engine.on_work = lambda: None
        assert running.client.post("/v1/chat", json={"prompt": "on"}).json() == {"text": "on"}


@pytest.mark.parametrize(("path", "name"), [("/v1/chat/soap", "transcript"), ("/v1/chat/summarize", "text")])
def test_instructed_chat(client: httpx.Client, path: str, name: str) -> None:
    assert client.post(path, json={name: "it hurts"}).json() == {"text": "it hurts"}
    assert error(client.post(path, json={}), 400)["param"] == name
