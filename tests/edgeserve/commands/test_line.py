"""Connections to servers that take them, refuse them, and end them."""

from __future__ import annotations

from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread
from typing import Any, cast

import pytest
from support.server import fake_pool, serving

from edgeserve.commands.line import Line, open_line
from edgeserve.commands.remote import Server
from edgeserve.errors import EdgeserveError, NotSupported


class Other(BaseHTTPRequestHandler):
    """A server that knows no such route."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        self.send_error(404)

    def log_message(self, format: str, *args: object) -> None:
        return None


@pytest.fixture
def other() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Other) as server:
        thread = Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_a_server_without_the_route(other: str) -> None:
    with pytest.raises(NotSupported, match="has no /v1/realtime; it answered 404"), open_line(Server(other)):
        raise AssertionError


def test_nobody_answers() -> None:
    with pytest.raises(EdgeserveError, match=r"no conversation with http://127\.0\.0\.1:1"):
        open_line(Server("http://127.0.0.1:1")).__enter__()


def test_the_key_of_the_server() -> None:
    with serving(fake_pool(["llm", "asr", "tts"]), api_key="søsam") as running:
        url = running.url.rstrip("/")
        with open_line(Server(url, "søsam")) as line:
            assert next(line.events())["type"] == "session.created"
        with pytest.raises(EdgeserveError, match="no key or a wrong one"), open_line(Server(url)):
            raise AssertionError


def test_texts_give_no_orders_to_the_terminal() -> None:
    with (
        serving(fake_pool(["llm", "asr", "tts"])) as running,
        open_line(Server(running.url.rstrip("/"))) as line,
    ):
        said = [{"type": "input_text", "text": "\x1b[2Jhi\x07"}]
        line.send("conversation.item.create", item={"type": "message", "role": "user", "content": said})
        added = next(one for one in line.events() if one["type"] == "conversation.item.added")
    assert added["item"]["content"][0]["text"] == "\\u001b[2Jhi\\u0007"


def test_an_event_that_is_no_json() -> None:
    class Connection:
        def recv(self) -> str:
            return "no event"

    with pytest.raises(EdgeserveError, match="is it an edgeserve"):
        next(Line(cast(Any, Connection()), "http://box").events())


def test_a_server_without_the_models() -> None:
    """The server says what is missing, and ends the session. Both ends of the connection see it."""
    with serving(fake_pool(["asr", "tts"])) as running, open_line(Server(running.url.rstrip("/"))) as line:
        events = line.events()
        error = next(events)
        assert error["type"] == "error"
        with pytest.raises(EdgeserveError, match="the server ended the conversation: "):
            next(events)
        with pytest.raises(EdgeserveError, match="the server ended the conversation: "):
            line.send("response.create")
