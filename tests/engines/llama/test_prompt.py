"""Prompts with thoughts on and off, and prompts that go on in the last message."""

from __future__ import annotations

import dataclasses

import pytest
from support.cases import each
from support.contract import ask

from edgeserve.engines.llama.prompt import prompt_text
from edgeserve.engines.llama.template import ChatTemplate
from edgeserve.messages import Message, TextPart, ToolCall

SWITCHED = (
    "{% for m in messages %}<{{ m.role }}>{% if m.reasoning_content %}[{{ m.reasoning_content }}]{% endif %}"
    "{{ m.content }}{% endfor %}{% if add_generation_prompt %}<assistant>{% if enable_thinking is defined and not "
    "enable_thinking %}<think>\n\n</think>\n\n{% endif %}{% endif %}({{ effort }}{{ thinking }})"
)
OPENING = "{% for m in messages %}<{{ m.role }}>{{ m.content }}{% endfor %}<assistant><think>\n"


def said(role: str, text: str, **fields: object) -> Message:
    return Message(role, (TextPart(text),), **fields)  # type: ignore[arg-type]


def prompt(source: str, *messages: Message, **fields: object) -> str:
    request = dataclasses.replace(ask("Hi"), messages=messages or (said("user", "Hi"),), **fields)  # type: ignore[arg-type]
    return prompt_text(ChatTemplate(source, "", ""), request)


@pytest.mark.parametrize(
    ("fields", "end"),
    [
        ({}, "<assistant>()"),
        ({"thinking": True}, "<assistant>(True)"),
        ({"thinking": False}, "<assistant><think>\n\n</think>\n\n(False)"),
        ({"thinking": False, "variables": '{"enable_thinking": true}'}, "<assistant>(False)"),
        ({"variables": '{"effort": "low", "messages": [], "add_generation_prompt": false}'}, "<assistant>(low)"),
        ({"generation_prompt": False}, "<user>Hi()"),
    ],
)
def test_a_template_gets_what_the_request_wants(fields: dict[str, object], end: str) -> None:
    assert prompt(SWITCHED, **fields).endswith(end)


@each(
    ("fields", "closed"),
    [
        ({}, False),
        ({"thinking": True}, False),
        ({"thinking": False}, True),
        ({"json_object": True}, True),
        ({"grammar": 'root ::= "a"'}, True),
    ],
)
def test_thoughts_that_a_template_opens_are_closed_where_none_can_come(fields: dict[str, object], closed: bool) -> None:
    assert prompt(OPENING, **fields) == "<user>Hi<assistant><think>" + "\n\n</think>\n\n" * closed


def test_an_answer_goes_on_in_the_last_message() -> None:
    begun = (said("user", "Count."), said("assistant", "one two"))
    assert prompt(SWITCHED, *begun, continues=True) == "<user>Count.<assistant>()one two"
    assert prompt(OPENING, *begun, continues=True) == "<user>Count.<assistant><think>\n\n</think>\n\none two"


def test_thoughts_of_past_answers_reach_the_template() -> None:
    assert "<assistant>[I see]yes<user>" in prompt(
        SWITCHED, said("user", "a"), said("assistant", "yes", reasoning="I see"), said("user", "b")
    )


@pytest.mark.parametrize(("text", "shown"), [('{"a": 1}', '{"a": 1}'), ("{a", '"{a"'), ("[1]", '"[1]"')])
def test_broken_arguments_of_a_past_call_are_a_text(text: str, shown: str) -> None:
    called = Message("assistant", (), (ToolCall("f", text, "c"),))
    source = "{% for m in messages %}{{ m.tool_calls[0].function.arguments | tojson }}{% endfor %}{{ tools }}"
    assert prompt(source, called).startswith(shown)
    without = "{% for m in messages %}{{ m.content }}{% endfor %}"
    assert prompt(without, called) == f'{{"name": "f", "arguments": {shown}}}'
