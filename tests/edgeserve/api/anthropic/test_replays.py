"""Requests of Claude Code, and the messages that it puts together from the answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.replays import holds
from support.server import Running, fake_pool, serving

STEPS = json.loads((Path(__file__).parent / "replays" / "claude_code.json").read_text(encoding="utf-8"))
HEADERS = {
    "accept": "application/json",
    "anthropic-beta": "claude-code-20250219,interleaved-thinking-2025-05-14,context-management-2025-06-27",
    "anthropic-dangerous-direct-browser-access": "true",
    "anthropic-version": "2023-06-01",
    "authorization": "Bearer none",
    "content-type": "application/json",
    "user-agent": "claude-cli/2.1.77 (external, cli)",
    "x-app": "cli",
    "x-stainless-lang": "js",
    "x-stainless-retry-count": "0",
    "x-stainless-timeout": "600",
}


@pytest.fixture(scope="module")
def loopback() -> Iterator[Running]:
    """A server whose default answers for models of other names, as on a loopback address."""
    with serving(fake_pool(("llm", "vision"))) as running:
        running.pool.stand_ins = True
        yield running


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step["about"])
def test_a_request_is_answered_as_the_client_reads_it(loopback: Running, step: dict[str, Any]) -> None:
    answer = loopback.client.request(
        step.get("method", "POST"), step["path"], headers=HEADERS, content=json.dumps(step.get("body", {}))
    )
    assert answer.status_code == 200, answer.text
    if step.get("method") == "HEAD":
        return
    assert answer.headers["request-id"]
    assert "x-edgeserve-ignored" not in answer.headers
    found = put_together(answer) if step["body"].get("stream") else answer.json()
    assert holds(found, step["message"]), found


def put_together(answer: httpx.Response) -> dict[str, Any]:
    """The message of a stream, as the client's SDK accumulates it."""
    message: dict[str, Any] = {}
    for block in answer.text.split("\n\n")[:-1]:
        name, data = block.split("\n")
        event = json.loads(data.removeprefix("data: "))
        assert name == f"event: {event['type']}"
        match event["type"]:
            case "message_start":
                message = event["message"]
                assert message["usage"]["input_tokens"] > 0  # the client fails without this number
            case "content_block_start":
                assert event["index"] == len(message["content"])
                message["content"].append(event["content_block"] | {"json": ""})
            case "content_block_delta":
                add(message["content"][event["index"]], event["delta"])
            case "message_delta":
                message |= event["delta"]
                message["usage"] |= event["usage"]
    for one in message["content"]:
        text = one.pop("json")
        if one["type"] == "tool_use":
            one["input"] = json.loads(text)
    return message


def add(block: dict[str, Any], delta: dict[str, Any]) -> None:
    for name, text in delta.items():
        if name != "type":
            place = "json" if name == "partial_json" else name
            block[place] += text
