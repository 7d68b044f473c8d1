"""Bodies of Ollama's dialect: counted, and read beside the event loop."""

from __future__ import annotations

import asyncio
import json
import threading
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.requests import Request
from support.examples import examples

from edgeserve.api.json_body import SMALL, VALUE_BYTES
from edgeserve.api.limits import PARSE, Limits
from edgeserve.api.ollama import chat, fields
from edgeserve.api.ollama.chat import OllamaChat
from edgeserve.api.ollama.fields import as_url
from edgeserve.api.ollama.messages import conversation
from edgeserve.api.ollama.request import read


def body(messages: int) -> bytes:
    return json.dumps({"messages": [{"role": "user", "content": "a"}] * messages}).encode()


def asked(data: bytes, parse: Any = None) -> OllamaChat:
    async def receive() -> Any:
        return {"type": "http.request", "body": data, "more_body": False}

    app = SimpleNamespace(state=SimpleNamespace(limits=Limits()))
    scope = {"type": "http", "app": app, "headers": [], "path": "/api/chat", "query_string": b"", PARSE: parse}
    return asyncio.run(read(Request(scope, receive), OllamaChat))


def test_the_values_of_a_large_body_count() -> None:
    """They take thirty times the text. The other dialects counted them, so that a few requests took gigabytes."""
    counted: list[int] = []
    asked(body(2), counted.append)
    assert counted == []
    asked(body(1000), counted.append)
    assert counted == [VALUE_BYTES * (1 + 1 + 1000 + 1000 + 999)]  # braces, bracket, and commas of both kinds


def test_a_long_conversation_is_made_where_its_body_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread reads a large body. 43,000 messages held the event loop for 0.2 s."""
    threads: list[str] = []

    def noted(*given: Any) -> Any:
        threads.append(threading.current_thread().name)
        return conversation(*given)

    monkeypatch.setattr(chat, "conversation", noted)
    found = asked(body(SMALL))
    assert len(threads) == 1
    assert threads[0].startswith("edgeserve the reading of bodies")
    assert len(found.conversation.messages) == SMALL


def test_pictures_are_addresses_where_their_body_is_read() -> None:
    """Line ends among 15 MB that are no base64 held the event loop for 0.3 s."""
    data = json.dumps({"messages": [{"role": "user", "content": "a", "images": ["QU\r\nJD", "data:x"]}]}).encode()
    found = asked(data)
    assert found.messages[0].images == ("data:;base64,QUJD", "data:x")
    assert [one.address for one in found.conversation.pending] == ["data:;base64,QUJD", "data:x"]


@examples(60)
@given(st.text("Aé漢\n\r\t \U0001f600", max_size=40), st.integers(1, 5))
def test_an_address_has_no_line_ends_wherever_they_stand(image: str, piece: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(fields, "PIECE", piece)
        assert as_url(image) == f"data:;base64,{image.translate({10: None, 13: None})}"
