"""Limits on texts that name something. Megabytes of such a text held the event loop for a second."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from edgeserve.api.fields import NAME_CHARS

LONG = "\u0378" * (1 << 20)
CHAT = {"messages": [{"role": "user", "content": "hello"}]}
TOOLS = [{"type": "function", "function": {"name": "look"}}]
FIELDS: list[tuple[str, str, dict[str, Any]]] = [
    ("/v1/chat/completions", "model", CHAT | {"model": LONG}),
    ("/v1/completions", "model", {"prompt": "hello", "model": LONG}),
    ("/v1/embeddings", "model", {"input": "hello", "model": LONG}),
    ("/v1/embeddings", "encoding_format", {"input": "hello", "encoding_format": LONG}),
    ("/v1/audio/speech", "model", {"input": "hello", "model": LONG}),
    ("/v1/audio/speech", "voice", {"input": "hello", "voice": LONG}),
    ("/v1/audio/speech", "response_format", {"input": "hello", "response_format": LONG}),
    ("/v1/audio/speech", "stream_format", {"input": "hello", "stream_format": LONG}),
    ("/v1/tts/synthesize", "voice", {"text": "hello", "voice": LONG}),
    (
        "/v1/chat/completions",
        "tool_choice.function.name",
        CHAT | {"tools": TOOLS, "tool_choice": {"type": "function", "function": {"name": LONG}}},
    ),
    ("/memory/preload", "models[0].model_type", {"models": [{"model_type": LONG}]}),
    ("/memory/preload", "models[0].name", {"models": [{"name": LONG}]}),
]


@pytest.mark.parametrize(("path", "field", "body"), FIELDS, ids=[f"{path} {field}" for path, field, _ in FIELDS])
def test_a_long_name_is_refused_by_its_length(client: httpx.Client, path: str, field: str, body: Any) -> None:
    answer = client.post(path, json=body)
    error = answer.json()["error"]
    assert (answer.status_code, error["param"]) == (400, field)
    assert error["message"] == f"{field} has {len(LONG)} characters; the limit is {NAME_CHARS}"


def test_a_long_name_of_a_file_is_told_in_part(client: httpx.Client) -> None:
    part = {"type": "image_url", "image_url": {"url": f"attachment:{LONG}"}}
    answer = client.post("/v1/chat/completions", json={"messages": [{"role": "user", "content": [part]}]})
    assert answer.status_code == 400
    assert "the body has no file part named" in answer.json()["error"]["message"]
