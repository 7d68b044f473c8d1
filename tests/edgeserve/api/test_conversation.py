"""Fields of messages, of their parts and of calls: OpenAI's fields, and no others."""

from __future__ import annotations

import asyncio
import json
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request
from support.turns import counted_calls, most_in_a_turn

from edgeserve.api.conversation import Messages
from edgeserve.api.fields import Fields
from edgeserve.api.json_body import MAX_VALUES, read_record
from edgeserve.api.limits import HOLD, Limits
from edgeserve.api.pictures.reader import PictureFilesHere
from edgeserve.api.pictures.request import Pictures
from edgeserve.api.schema import Record
from edgeserve.api.tools import Tools
from edgeserve.errors import InvalidRequest
from edgeserve.messages import Message

CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.fixture(scope="module")
def pictures() -> Pictures:
    app = SimpleNamespace(state=SimpleNamespace(limits=Limits(), picture_files=PictureFilesHere()))
    return Pictures(Request({"type": "http", "app": app, HOLD: None}))


class Body(Record):
    messages = Messages(required=True)


def read(pictures: Pictures, *messages: dict[str, Any]) -> tuple[Message, ...]:
    said = Body(Fields({"messages": list(messages)}), Limits()).messages
    return asyncio.run(said.whole(pictures))


def test_an_answer_may_be_sent_back_as_it_came(pictures: Pictures) -> None:
    said = {"role": "assistant", "content": "Hi", "refusal": None, "annotations": [], "audio": None}
    said |= {"function_call": None, "tool_calls": None, "reasoning_content": "I greet."}
    streamed = {"role": "assistant", "content": None, "tool_calls": [{**CALL, "index": 0}]}
    result = {"role": "tool", "tool_call_id": "c", "name": "f", "content": [{"type": "text", "text": "x"}]}
    asked = {"role": "user", "name": "Ann", "content": "Hi"}
    assert [one.text for one in read(pictures, asked, said, streamed, result)] == ["Hi", "Hi", "", "x"]


def test_arguments_of_many_calls_hold_no_more_values_together_than_a_body(pictures: Pictures) -> None:
    many = '{"a": [' + "[]," * (MAX_VALUES // 2 - 9) + "[]]}"
    calls = [{**CALL, "function": {"name": "f", "arguments": many}}] * 3
    for messages in ([{"tool_calls": calls}], [{"tool_calls": [one]} for one in calls]):
        with pytest.raises(InvalidRequest, match="the text of all arguments holds more than") as caught:
            read(pictures, *({"role": "assistant", **one} for one in messages))
        assert caught.value.param == "messages"
    assert read(pictures, called(calls[0]))[0].tool_calls[0].arguments == many


def part(**fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": "x", **fields}]}


def picture(**fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:", **fields}}]}


def called(call: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [call]}


def arguments(text: str) -> dict[str, Any]:
    return called({**CALL, "function": {"name": "f", "arguments": text}})


@pytest.mark.parametrize(
    ("message", "param"),
    [
        ({"role": "user", "content": "x", "contents": "y"}, "contents"),
        ({"role": "user", "content": "x", "images": []}, "images"),
        ({"role": "user", "content": "x", "name": 3}, "name"),
        ({"role": "assistant", "content": "x", "refusal": "no"}, "refusal"),
        ({"role": "assistant", "content": "x", "audio": {"id": "a"}}, "audio"),
        (part(cache_control={}), "content[0].cache_control"),
        (picture(details="low"), "content[0].image_url.details"),
        (picture(detail="most"), "content[0].image_url.detail"),
        (called({**CALL, "name": "f"}), "tool_calls[0].name"),
        (called({**CALL, "type": "custom"}), "tool_calls[0].type"),
        (called({**CALL, "function": {"name": "f", "parameters": {}}}), "tool_calls[0].function.parameters"),
        *(
            (arguments(text), "tool_calls[0].function.arguments")
            for text in ("[]", "x", '{"a": 1e999}', '{"a": NaN}', '{"a": "\\ud800"}', '{"\\udc00": 1}')
        ),
        (arguments('{"a":' * 200 + "1" + "}" * 200), "tool_calls[0].function.arguments"),
        (arguments('{"a":' * 90_000), "tool_calls[0].function.arguments"),
        (called({**CALL, "function": {"name": "\ud800", "arguments": "{}"}}), "tool_calls[0].function.name"),
    ],
)
def test_undeclared_fields_are_refused_by_name(pictures: Pictures, message: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(pictures, message)
    assert caught.value.param == f"messages[0].{param}"


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"tools": [{**TOOL, "strict": True}]}, "tools[0].strict"),
        ({"tools": [{"type": "function", "function": {"name": "f", "args": {}}}]}, "tools[0].function.args"),
        ({"tools": [{**TOOL, "function": {"name": "f", "parameters": {"a": 1e999}}}]}, "tools[0].function.parameters"),
        ({"tool_choice": {**TOOL, "name": "f"}}, "tool_choice.name"),
        ({"tool_choice": {"type": "function", "function": {"name": "f", "x": 1}}}, "tool_choice.function.x"),
        (
            {"tool_choice": {"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [TOOL]}, "x": 1}},
            "tool_choice.x",
        ),
    ],
)
def test_undeclared_fields_of_tools_and_their_choice_are_refused_by_name(body: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        Tools(Fields(body), Limits())
    assert caught.value.param == param


@pytest.mark.parametrize(
    "bomb",
    ['{"a":[' + "[]," * 200_000 + "[]]}", '{"a":[' + "1," * 200_000 + "1]}", "{" + '"a":{},' * 200_000 + '"a":1}'],
)
def test_arguments_of_many_values_are_refused_before_they_are_read(pictures: Pictures, bomb: str) -> None:
    """Commas within a string are no values of the body. The parser of arguments counts their values."""
    call = {**CALL, "function": {"name": "f", "arguments": bomb}}
    with pytest.raises(InvalidRequest, match="more than 131,072 values") as refused:
        read(pictures, {"role": "assistant", "tool_calls": [call]})
    assert refused.value.param == "messages[0].tool_calls[0].function.arguments"


MANY = 3_000
LARGE = {"name": "f", "arguments": json.dumps({"a": "x" * MANY})}
SAID = {
    "messages": [{"role": "user", "content": "x"}] * MANY,
    "parts": [{"role": "user", "content": [{"type": "text", "text": "x"}] * MANY}],
    "calls": [{"role": "assistant", "tool_calls": [CALL] * (MANY // 3)}],
    "arguments": [{"role": "assistant", "tool_calls": [{**CALL, "function": LARGE}]}] * 100,
}


@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_a_long_conversation_is_read_beside_the_event_loop(pictures: Pictures, said: list[dict[str, Any]]) -> None:
    data = json.dumps({"messages": said}).encode()

    async def work() -> None:
        body = await read_record(data, Body, Limits())
        await body.messages.whole(pictures)

    with counted_calls() as calls:
        assert asyncio.run(most_in_a_turn(work(), calls)) < 1_000
