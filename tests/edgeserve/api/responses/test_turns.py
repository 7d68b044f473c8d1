"""Items as messages: roles, turns of the assistant, calls and their results, system messages."""

from __future__ import annotations

from typing import Any

import pytest
from support.cases import each

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.responses.turns import conversation
from edgeserve.api.responses.values import Input
from edgeserve.errors import InvalidRequest
from edgeserve.messages import Message, TextPart, ToolCall


def messages(given: Any, instructions: str = "") -> tuple[Message, ...]:
    field = Input()
    field.name = "input"
    return conversation(instructions, field.read(Fields({"input": given}), Limits())).messages


def said(role: Any, text: str, **more: Any) -> Message:
    return Message(role, (TextPart(text),), **more)


def call(name: str) -> dict[str, str]:
    return {"type": "function_call", "call_id": f"call_{name}", "name": name, "arguments": "{}"}


def test_a_text_is_a_message_of_the_user() -> None:
    assert messages("hello", "Be short.") == (said("system", "Be short."), said("user", "hello"))


def test_system_messages_at_the_beginning_are_joined() -> None:
    given = [
        {"role": "developer", "content": [{"type": "input_text", "text": "Two."}]},
        {"role": "system", "content": "Three."},
        {"role": "user", "content": "hello"},
        {"role": "developer", "content": "Later."},
    ]
    first, *others = messages(given, "One.")
    assert (first.role, first.text) == ("system", "One.\n\nTwo.\n\nThree.")
    assert others == [said("user", "hello"), said("system", "Later.")]


def test_thoughts_text_and_calls_are_one_turn_of_the_assistant() -> None:
    thoughts = {"type": "reasoning", "id": "rs_1", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]}
    answer = {
        "type": "message",
        "id": "msg_1",
        "role": "assistant",
        "status": "completed",
        "content": [{"type": "output_text", "text": "I look.", "annotations": [], "logprobs": []}],
    }
    results = [
        {"type": "function_call_output", "call_id": "call_b", "output": "two"},
        {"type": "function_call_output", "call_id": "call_a", "output": [{"type": "input_text", "text": "one"}]},
    ]
    given = [{"role": "user", "content": "go"}, thoughts, answer, call("a"), call("b"), *results]
    calls = (ToolCall("a", "{}", "call_a"), ToolCall("b", "{}", "call_b"))
    assert messages(given) == (
        said("user", "go"),
        said("assistant", "I look.", tool_calls=calls, reasoning="hm"),
        said("tool", "two", tool_call_id="call_b"),
        said("tool", "one", tool_call_id="call_a"),
    )


def test_each_message_of_the_assistant_is_a_turn() -> None:
    given = [{"role": "assistant", "content": text} for text in ("one", "two")]
    assert messages(given) == (said("assistant", "one"), said("assistant", "two"))


def test_thoughts_without_an_answer_and_items_of_other_tools_are_left_out() -> None:
    given = [
        {
            "type": "reasoning",
            "id": "rs_1",
            "summary": [{"type": "summary_text", "text": "s"}],
            "encrypted_content": "x",
        },
        {"role": "user", "content": "hello"},
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search"}},
        {"type": "message", "role": "assistant", "content": []},
    ]
    assert messages(given) == (said("user", "hello"),)


def test_pictures_keep_their_place_also_in_results() -> None:
    field = Input()
    field.name = "input"
    picture = {"type": "input_image", "image_url": "data:x", "detail": "auto"}
    given = [
        {
            "role": "user",
            "content": [{"type": "input_text", "text": "a"}, picture, {"type": "input_text", "text": "b"}],
        },
        call("look"),
        {"type": "function_call_output", "call_id": "call_look", "output": [picture]},
    ]
    pending = conversation("Be short.", field.read(Fields({"input": given}), Limits())).pending
    assert [(one.param, one.message, one.part) for one in pending] == [
        ("input[0].content[1].image_url", 1, 1),
        ("input[2].output[0].image_url", 3, 0),
    ]


@each(
    ("item", "param"),
    [
        ({"type": "mystery"}, "input[0].type"),
        ({"content": "a"}, "input[0].role"),
        ({"role": "user"}, "input[0].content"),
        ({"role": "robot", "content": "a"}, "input[0].role"),
        ({"type": "function_call", "call_id": "c", "arguments": "{}"}, "input[0].name"),
        ({"type": "function_call_output", "call_id": "c"}, "input[0].output"),
        ({"type": "item_reference"}, "input[0].id"),
        ("a text", "input[0]"),
    ],
)
def test_a_wrong_item_is_named(item: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        messages([item])
    assert caught.value.param == param
