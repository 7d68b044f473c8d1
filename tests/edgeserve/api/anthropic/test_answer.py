"""The renderers of Anthropic's dialect, event by event."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import pytest
from support.cases import each

from edgeserve.api.anthropic.answer import MessageAnswer
from edgeserve.errors import EngineFailure
from edgeserve.messages import (
    Event,
    FinishEvent,
    FinishReason,
    PromptEvent,
    ReasoningEvent,
    TokenEvent,
    ToolCall,
    ToolCallEvent,
)

CALL = ToolCallEvent(ToolCall("get_time", '{"tz": "UTC"}'))
END = FinishEvent("stop", 10, 5, cached_tokens=7)


def whole(*events: Event, thoughts: bool = True) -> Any:
    answer = MessageAnswer("gemma", stream=False, thoughts=thoughts)
    assert not any(answer.feed(0, event) for event in events)
    return json.loads(answer.end())


def parsed(data: bytes) -> list[tuple[str, Any]]:
    """Names and data of the events in a stream."""
    found = []
    for block in data.decode().split("\n\n")[:-1]:
        name, value = block.split("\n")
        found.append((name.removeprefix("event: "), json.loads(value.removeprefix("data: "))))
        assert found[-1][1]["type"] == found[-1][0]
    return found


def streamed(*events: Event, thoughts: bool = True) -> list[tuple[str, Any]]:
    answer = MessageAnswer("gemma", stream=True, thoughts=thoughts)
    return parsed(b"".join([*(answer.feed(0, event) for event in events), answer.end()]))


def blocks(told: Sequence[tuple[str, Any]]) -> list[dict[str, Any]]:
    """The content of a stream, put together as the client does."""
    content: list[dict[str, Any]] = []
    texts = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature"}
    is_open = False
    for name, value in told:
        if name == "content_block_start":
            assert (is_open, value["index"]) == (False, len(content))
            content.append(value["content_block"] | {"json": ""})
            is_open = True
        elif name == "content_block_delta":
            delta = value["delta"]
            assert is_open
            assert value["index"] == len(content) - 1
            if delta["type"] == "input_json_delta":
                content[-1]["json"] += delta["partial_json"]
            else:
                content[-1][texts[delta["type"]]] += delta[texts[delta["type"]]]
        elif name == "content_block_stop":
            assert is_open
            is_open = False
    assert not is_open
    for one in content:
        text = one.pop("json")
        if one["type"] == "tool_use":
            assert one["input"] == {}
            one["input"] = json.loads(text)
    return content


def test_a_whole_message() -> None:
    found = whole(
        PromptEvent(10, 7), ReasoningEvent("H"), ReasoningEvent("m"), TokenEvent("Hel"), TokenEvent("lo"), CALL, END
    )
    assert found.pop("id").startswith("msg_")
    assert found["content"][2].pop("id").startswith("toolu_")
    assert found == {
        "type": "message",
        "role": "assistant",
        "model": "gemma",
        "content": [
            {"type": "thinking", "thinking": "Hm", "signature": ""},
            {"type": "text", "text": "Hello"},
            {"type": "tool_use", "name": "get_time", "input": {"tz": "UTC"}},
        ],
        "stop_reason": "end_turn",
        "stop_sequence": None,
        "usage": {
            "input_tokens": 3,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": 7,
            "output_tokens": 5,
        },
    }


@pytest.mark.parametrize("thoughts", [True, False])
def test_a_stream_tells_the_same_blocks(thoughts: bool) -> None:
    events = (
        PromptEvent(10, 7),
        ReasoningEvent("H"),
        ReasoningEvent("m"),
        TokenEvent("Hel"),
        TokenEvent("lo"),
        CALL,
        CALL,
        TokenEvent("done"),
        END,
    )
    told, message = streamed(*events, thoughts=thoughts), whole(*events, thoughts=thoughts)
    found = blocks(told)
    for one in (*found, *message["content"]):
        one.pop("id", None)
    assert found == message["content"]
    assert [one["type"] for one in found] == ["thinking"] * thoughts + ["text", "tool_use", "tool_use", "text"]


def test_the_order_of_a_stream() -> None:
    told = streamed(PromptEvent(10, 7), ReasoningEvent("Hm"), TokenEvent("Hello"), END)
    assert [name for name, _ in told] == [
        "message_start",
        "ping",
        *("content_block_start", "content_block_delta", "content_block_delta", "content_block_stop"),
        *("content_block_start", "content_block_delta", "content_block_stop"),
        "message_delta",
        "message_stop",
    ]
    start, ended = told[0][1]["message"], told[-2][1]
    assert (start["content"], start["stop_reason"], start["stop_sequence"]) == ([], None, None)
    assert (start["usage"]["input_tokens"], start["usage"]["cache_read_input_tokens"]) == (3, 7)
    assert start["usage"]["output_tokens"] == 0
    assert ended["delta"] == {"stop_reason": "end_turn", "stop_sequence": None}
    assert ended["usage"]["output_tokens"] == 5
    assert told[4][1]["delta"] == {"type": "signature_delta", "signature": ""}


def test_an_empty_answer_has_no_blocks() -> None:
    assert [name for name, _ in streamed(PromptEvent(1), END)] == [
        "message_start",
        "ping",
        "message_delta",
        "message_stop",
    ]
    assert whole(PromptEvent(1), END)["content"] == []


def test_a_text_of_white_space_alone_is_no_block() -> None:
    events = (PromptEvent(1), TokenEvent("\n"), TokenEvent("\n"), CALL, TokenEvent(" "), TokenEvent("x"), END)
    found = blocks(streamed(*events))
    assert [one["type"] for one in found] == ["tool_use", "text"]
    assert found[1]["text"] == " x"
    assert [one["type"] for one in whole(*events)["content"]] == ["tool_use", "text"]


@each(
    ("reason", "stop", "told"),
    [
        ("stop", "", ("end_turn", None)),
        ("stop", "\n\nHuman:", ("stop_sequence", "\n\nHuman:")),
        ("length", "", ("max_tokens", None)),
        ("tool_calls", "", ("tool_use", None)),
        ("tool_calls", "stop", ("tool_use", None)),
    ],
)
def test_reasons(reason: FinishReason, stop: str, told: tuple[str, str | None]) -> None:
    end = FinishEvent(reason, 1, 1, stop=stop)
    found, ended = whole(PromptEvent(1), end), streamed(PromptEvent(1), end)[-2][1]["delta"]
    assert (found["stop_reason"], found["stop_sequence"]) == told
    assert (ended["stop_reason"], ended["stop_sequence"]) == told


def test_an_error_in_a_stream_is_an_event() -> None:
    answer = MessageAnswer("gemma", stream=True, thoughts=False)
    answer.feed(0, PromptEvent(1))
    ((name, told),) = parsed(answer.fail(EngineFailure("it broke")))
    assert name == "error"
    assert (told["error"]["type"], told["error"]["message"]) == ("api_error", "it broke")
