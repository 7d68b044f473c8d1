"""Fields of messages, of their parts and of calls: OpenAI's fields, and no others."""

from __future__ import annotations

import asyncio
import base64
import json
from types import SimpleNamespace
from typing import Any

import pytest
from starlette.requests import Request
from support.bodies import PNG
from support.cases import each
from support.pictures import IDLE
from support.turns import counted_calls, most_in_a_turn

from edgeserve.api.attachments import Attachments
from edgeserve.api.conversation import Messages, OpenCalls
from edgeserve.api.fields import Fields
from edgeserve.api.json_body import MAX_VALUES, read_record
from edgeserve.api.limits import HOLD, Limits
from edgeserve.api.pictures.reader import PictureFilesHere
from edgeserve.api.schema import Record
from edgeserve.api.tools import Tools
from edgeserve.errors import InvalidRequest
from edgeserve.messages import Message, ToolCall

LIMITS = Limits(unknown_fields="refuse")
CALL = {"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}
TOOL = {"type": "function", "function": {"name": "f"}}


@pytest.fixture(scope="module")
def pictures() -> Attachments:
    app = SimpleNamespace(state=SimpleNamespace(limits=Limits(), picture_files=PictureFilesHere(), pool=IDLE))

    async def receive() -> Any:
        await asyncio.Event().wait()

    return Attachments(Request({"type": "http", "app": app, HOLD: None}, receive))


class Body(Record):
    messages = Messages(required=True)


def read(pictures: Attachments, *messages: dict[str, Any]) -> tuple[Message, ...]:
    said = Body(Fields({"messages": list(messages)}), LIMITS).messages
    return asyncio.run(said.whole(pictures))


def test_an_answer_may_be_sent_back_as_it_came(pictures: Attachments) -> None:
    said = {"role": "assistant", "content": "Hi", "refusal": None, "annotations": [], "audio": None}
    said |= {"function_call": None, "tool_calls": None, "reasoning_content": "I greet."}
    streamed = {"role": "assistant", "content": None, "tool_calls": [{**CALL, "index": 0}]}
    result = {"role": "tool", "tool_call_id": "c", "name": "f", "content": [{"type": "text", "text": "x"}]}
    asked = {"role": "user", "name": "Ann", "content": "Hi"}
    assert [one.text for one in read(pictures, asked, said, streamed, result)] == ["Hi", "Hi", "", "x"]


def test_arguments_of_many_calls_hold_no_more_values_together_than_a_body(pictures: Attachments) -> None:
    many = '{"a": [' + "[]," * (MAX_VALUES // 2 - 9) + "[]]}"
    calls = [{**CALL, "function": {"name": "f", "arguments": many}}] * 3
    for messages in ([{"tool_calls": calls}], [{"tool_calls": [one]} for one in calls]):
        with pytest.raises(InvalidRequest, match="the text of all arguments holds more than") as caught:
            read(pictures, *({"role": "assistant", **one} for one in messages))
        assert caught.value.param == "messages"
    assert read(pictures, called(calls[0]))[0].tool_calls[0].arguments == many


@each("text", ["[]", "x", '{"a": 1e999}', '{"a": NaN}', '{"a": "\\ud800"}', '{"a":' * 200])
def test_broken_arguments_of_a_past_call_stay_as_they_are(pictures: Attachments, text: str) -> None:
    assert read(pictures, arguments(text))[0].tool_calls[0].arguments == text


@pytest.mark.parametrize(("given", "kept"), [({"a": [1, "é"]}, '{"a":[1,"é"]}'), ({}, "{}"), ("", "{}"), (None, "{}")])
def test_arguments_may_be_an_object(pictures: Attachments, given: Any, kept: str) -> None:
    assert read(pictures, arguments(given))[0].tool_calls[0].arguments == kept


def test_contents_may_be_null(pictures: Attachments) -> None:
    empty = [{"role": "assistant"}, {"role": "assistant", "content": None}, {"role": "assistant", "content": ""}]
    assert [one.text for one in read(pictures, *empty, {"role": "tool", "content": None, "tool_call_id": "x"})] == [
        *("", "", ""),
        "",
    ]
    for role in ("user", "system"):
        with pytest.raises(InvalidRequest, match="must be a string or a list of parts"):
            read(pictures, {"role": role, "content": None})


def result(**fields: Any) -> dict[str, Any]:
    return {"role": "tool", "content": "7", **fields}


def test_a_result_answers_the_oldest_open_call_unless_it_names_one(pictures: Attachments) -> None:
    calls = [{**CALL, "id": name, "function": {"name": f"f_{name}", "arguments": "{}"}} for name in "abcd"]
    asked = {"role": "assistant", "tool_calls": calls}
    given = [result(tool_call_id="c"), result(), result(name="f_d"), result(), result(), result(tool_call_id="gone")]
    assert [one.tool_call_id for one in read(pictures, asked, *given)[1:]] == ["c", "a", "d", "b", "", "gone"]


class Compared(str):
    """Counts its comparisons."""

    count = 0

    def __eq__(self, other: object) -> bool:
        Compared.count += 1
        return str.__eq__(self, other)

    __hash__ = str.__hash__


@each("way", ["by_id", "by_name", "oldest", "guessed"])
def test_a_call_is_found_in_the_same_time_however_many_are_open(way: str) -> None:
    """One request may hold ten thousand calls and results; all threads share the interpreter."""
    calls, Compared.count = OpenCalls(), 0
    names = [f"c{number}" for number in range(300)]
    calls.add([ToolCall(Compared(f"f_{name}"), "{}", Compared(name)) for name in names])
    found = []
    for name in reversed(names):
        given = {
            "by_id": (Compared(name), ""),
            "by_name": ("", Compared(f"f_{name}")),
            "oldest": ("", ""),
            "guessed": (Compared("gone"), ""),
        }[way]
        found.append(calls.answered(*given, guess=way == "guessed"))
    assert Compared.count < 10 * len(names)
    assert {f"{one}" for one in found} == set(names), "each is answered once"
    assert calls.answered("", "") == ""


def test_the_older_form_of_calls_goes_round(pictures: Attachments) -> None:
    asked = {"role": "assistant", "content": None, "function_call": {"name": "f", "arguments": '{"a": 1}'}}
    messages = read(pictures, asked, {"role": "function", "name": "f", "content": "7"})
    (call,) = messages[0].tool_calls
    assert (call.name, call.arguments, messages[1].role, messages[1].tool_call_id) == ("f", '{"a": 1}', "tool", call.id)


@pytest.mark.parametrize("kind", ["text", "input_text", "output_text"])
def test_texts_have_several_names(pictures: Attachments, kind: str) -> None:
    said = [{"type": kind, "text": "a"}, {"type": "refusal", "refusal": "b"}, {"type": "thinking", "thinking": "c"}]
    assert read(pictures, {"role": "assistant", "content": said})[0].text == "ab"


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning", "thinking"])
def test_thoughts_of_past_answers_are_kept_for_the_chat_template(pictures: Attachments, field: str) -> None:
    (said,) = read(pictures, {"role": "assistant", "content": "x", field: "I think"})
    assert (said.text, said.reasoning) == ("x", "I think")
    assert read(pictures, {"role": "user", "content": "x", field: "I think"})[0].reasoning == ""


def test_a_refusal_is_what_the_assistant_said(pictures: Attachments) -> None:
    assert read(pictures, {"role": "assistant", "content": None, "refusal": "no"})[0].text == "no"
    assert read(pictures, {"role": "assistant", "content": "x", "refusal": "no"})[0].text == "x"


@each("role", ["user", "tool"])
@each(
    "given",
    [
        {"type": "image_url", "image_url": "URL"},
        {"type": "image_url", "image_url": {"url": "URL"}},
        {"type": "input_image", "image_url": "URL", "detail": "auto"},
    ],
)
def test_a_picture_stands_in_its_place(pictures: Attachments, role: str, given: dict[str, Any]) -> None:
    given = json.loads(json.dumps(given).replace("URL", f"data:image/png;base64,{base64.b64encode(PNG).decode()}"))
    content = [{"type": "text", "text": "a"}, {"type": "thinking"}, given, {"type": "text", "text": "b"}]
    (message,) = read(pictures, {"role": role, "content": content})
    assert [getattr(one, "text", "picture") for one in message.parts] == ["a", "picture", "b"]
    assert message.parts[1].param == "messages[0].content[2].image_url"  # type: ignore[union-attr]


def part(**fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "text", "text": "x", **fields}]}


def picture(**fields: Any) -> dict[str, Any]:
    return {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:", **fields}}]}


def called(call: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "tool_calls": [call]}


def arguments(text: Any) -> dict[str, Any]:
    return called({**CALL, "function": {"name": "f", "arguments": text}})


@each(
    ("message", "param"),
    [
        ({"role": "user", "content": "x", "contents": "y"}, "contents"),
        ({"role": "user", "content": "x", "images": ["a"]}, "images"),
        ({"role": "user", "content": "x", "name": 3}, "name"),
        ({"role": "assistant", "content": "x", "audio": {"id": "a"}}, "audio"),
        (part(cache_control={}), "content[0].cache_control"),
        (picture(details="low"), "content[0].image_url.details"),
        (picture(detail="most"), "content[0].image_url.detail"),
        (called({**CALL, "name": "f"}), "tool_calls[0].name"),
        (called({**CALL, "type": "custom"}), "tool_calls[0].type"),
        (called({**CALL, "function": {"name": "f", "parameters": {}}}), "tool_calls[0].function.parameters"),
        (arguments([]), "tool_calls[0].function.arguments"),
        (arguments({"a": 1e999}), "tool_calls[0].function.arguments"),
        (called({**CALL, "function": {"name": "\ud800", "arguments": "{}"}}), "tool_calls[0].function.name"),
    ],
)
def test_undeclared_fields_are_refused_by_name(pictures: Attachments, message: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(pictures, message)
    assert caught.value.param == f"messages[0].{param}"


@each(
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
        Tools(Fields(body), LIMITS)
    assert caught.value.param == param


@pytest.mark.parametrize(
    "bomb",
    ['{"a":[' + "[]," * 200_000 + "[]]}", '{"a":[' + "1," * 200_000 + "1]}", "{" + '"a":{},' * 200_000 + '"a":1}'],
)
def test_arguments_of_many_values_are_refused_before_they_are_read(pictures: Attachments, bomb: str) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize("said", SAID.values(), ids=SAID)
def test_a_long_conversation_is_read_beside_the_event_loop(pictures: Attachments, said: list[dict[str, Any]]) -> None:
    data = json.dumps({"messages": said}).encode()

    async def work() -> None:
        body = await read_record(data, Body, Limits())
        await body.messages.whole(pictures)

    with counted_calls() as calls:
        assert asyncio.run(most_in_a_turn(work(), calls)) < 1_000
