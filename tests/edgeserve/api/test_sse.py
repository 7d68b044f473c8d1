"""Server-sent events: their bytes, whole and of chunks with the same beginning."""

from __future__ import annotations

import json
from typing import Any

import pytest

from edgeserve.api import sse


def test_an_event_is_one_line_of_json_without_spaces() -> None:
    assert sse.event({"text": "Grüße\n", "end": None}) == 'data: {"text":"Grüße\\n","end":null}\n\n'.encode()


@pytest.mark.parametrize("members", [{"choices": [{"text": 'a "b"'}]}, {"choices": [], "more": {"x": 1.5}}])
def test_a_chunk_has_the_bytes_of_an_event(members: dict[str, Any]) -> None:
    base = {"id": "1", "model": 'a "model" of } ü', "usage": None}
    chunks = sse.Chunks(base)
    for _ in range(2):
        assert chunks.event(members) == sse.event(base | members)
    assert json.loads(chunks.event(members).removeprefix(b"data: ")) == base | members
