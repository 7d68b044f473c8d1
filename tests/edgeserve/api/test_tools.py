"""Tools and response_format through the official client. The tests of the engines cover the answers of models."""

from __future__ import annotations

import json
from typing import Any

import openai
import pytest
from openai import OpenAI
from pydantic import BaseModel
from support.cases import each

WEATHER = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather in a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "strict": True,
    },
}
CLOCK = {"type": "function", "function": {"name": "clock"}}
PARIS = '{"city": "Paris"}'


class City(BaseModel):
    city: str


def ask(ai: OpenAI, text: str, **settings: Any) -> Any:
    messages = settings.pop("messages", [{"role": "user", "content": text}])
    settings.setdefault("tools", [WEATHER, CLOCK])
    return ai.chat.completions.create(model="llm", messages=messages, **settings)


def called(answer: Any) -> list[tuple[str, Any]]:
    calls = answer.choices[0].message.tool_calls or []
    return [(call.function.name, json.loads(call.function.arguments)) for call in calls]


def test_a_call_and_its_result_go_round(ai: OpenAI) -> None:
    first = ask(ai, f"weather {PARIS}")
    (choice,) = first.choices
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    assert called(first) == [("weather", {"city": "Paris"})]
    (call,) = choice.message.tool_calls
    assert call.id.startswith("call_")
    result = {"role": "tool", "tool_call_id": call.id, "content": "sunny"}
    history = [{"role": "user", "content": f"weather {PARIS}"}, choice.message.model_dump(exclude_none=True), result]
    second = ask(ai, "", messages=history)
    assert second.choices[0].message.content == "sunny"
    assert second.choices[0].finish_reason == "stop"
    assert second.choices[0].message.tool_calls is None


def test_several_calls_only_where_they_may(ai: OpenAI) -> None:
    both = ask(ai, "weather and clock {}")
    assert [name for name, _ in called(both)] == ["weather", "clock"]
    assert len({call.id for call in both.choices[0].message.tool_calls}) == 2
    assert [name for name, _ in called(ask(ai, "weather and clock {}", parallel_tool_calls=False))] == ["weather"]


def test_the_choice_is_kept(ai: OpenAI) -> None:
    assert called(ask(ai, "hello", tool_choice="auto")) == []
    assert called(ask(ai, "weather {}", tool_choice="none")) == []
    assert called(ask(ai, "hello", tool_choice="required")) == [("weather", {})]
    named = {"type": "function", "function": {"name": "clock"}}
    assert called(ask(ai, "weather {}", tool_choice=named)) == [("clock", {})]


def allowed(mode: str, *names: str) -> dict[str, Any]:
    tools = [{"type": "function", "function": {"name": name}} for name in names]
    return {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": tools}}


def test_only_the_allowed_are_called(ai: OpenAI) -> None:
    assert called(ask(ai, "weather and clock {}", tool_choice=allowed("auto", "clock"))) == [("clock", {})]
    assert called(ask(ai, "weather and clock {}", tool_choice=allowed("auto", "clock", "weather"))) == [
        ("weather", {}),
        ("clock", {}),
    ]
    assert called(ask(ai, "hello", tool_choice=allowed("auto", "clock"))) == []
    assert called(ask(ai, "hello", tool_choice=allowed("required", "clock"))) == [("clock", {})]


def test_calls_are_streamed(ai: OpenAI) -> None:
    chunks = list(ask(ai, f"weather clock {PARIS}", stream=True))
    deltas = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert [(one.index, one.type, one.function.name) for one in deltas if one.id] == [
        (0, "function", "weather"),
        (1, "function", "clock"),
    ]
    texts = {index: "".join(one.function.arguments or "" for one in deltas if one.index == index) for index in (0, 1)}
    assert {index: json.loads(text) for index, text in texts.items()} == {key: {"city": "Paris"} for key in (0, 1)}
    assert chunks[-1].choices[0].finish_reason == "tool_calls"
    tool = openai.pydantic_function_tool(City, name="weather")
    with ai.chat.completions.stream(
        model="llm",
        messages=[{"role": "user", "content": f"weather {PARIS}"}],
        tools=[tool],
    ) as stream:
        (call,) = stream.get_final_completion().choices[0].message.tool_calls or []
    assert call.function.parsed_arguments == City(city="Paris")


def test_an_answer_by_schema_is_parsed(ai: OpenAI) -> None:
    messages: Any = [{"role": "user", "content": f"a city: {PARIS}"}]
    answer = ai.chat.completions.parse(model="llm", messages=messages, response_format=City)
    assert answer.choices[0].message.parsed == City(city="Paris")


@each(
    ("settings", "told"),
    [
        ({"tools": [{"type": "function"}]}, r"tools\[0\].function is required"),
        ({"tools": [{"type": "function", "function": {"name": "a b"}}]}, r"tools\[0\].function.name must be 1 to 64"),
        ({"tools": [CLOCK, CLOCK]}, r"tools\[1\].function.name 'clock' is there twice"),
        ({"tools": [CLOCK] * 129}, "has 129 entries; the limit is 128"),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "string"}}}]},
            r"tools\[0\].function.parameters.type must be object",
        ),
        (
            {"tools": [{"type": "function", "function": {"name": "f", "parameters": {"title": "x" * 70_000}}}]},
            "the limit of a schema is 65536",
        ),
        ({"tool_choice": "sometimes"}, "tool_choice must be auto, none, required, any or"),
        ({"tools": [], "tool_choice": "required"}, "tool_choice needs tools"),
        ({"tool_choice": {"type": "function", "function": {"name": "gone"}}}, "names 'gone', which is none of"),
        ({"tool_choice": allowed("auto", "gone")}, r"tool_choice.allowed_tools.tools names 'gone', which is none of"),
        ({"tool_choice": allowed("auto")}, r"tool_choice.allowed_tools.tools must be a list of at least one"),
        ({"tool_choice": allowed("never", "clock")}, r"tool_choice.allowed_tools.mode must be auto or required"),
        ({"tool_choice": {"type": "allowed_tools"}}, r"tool_choice.allowed_tools is required"),
        ({"tools": [], "tool_choice": allowed("auto", "clock")}, "tool_choice needs tools"),
        ({"response_format": {"type": "json_schema"}}, "response_format.json_schema is required"),
        (
            {"response_format": {"type": "xml"}},
            "type must be one of text, json_object, json_schema, not 'xml'",
        ),
        (
            {"response_format": {"type": "json_schema", "json_schema": {"name": "x"}}},
            "response_format.json_schema.schema is required",
        ),
    ],
)
def test_wrong_fields_are_named(ai: OpenAI, settings: dict[str, Any], told: str) -> None:
    with pytest.raises(openai.BadRequestError, match=told):
        ask(ai, "hello", **settings)
