"""Descriptions of tools for a model, and the form of its calls: by its chat template, else in plain JSON."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from typing import Any

from edgeserve import strict_json
from edgeserve.dataclass import dataclass
from edgeserve.messages import Message, TextPart, Tool, ToolCall

DESCRIPTION = """You can call these functions:
{tools}

To call one, answer with nothing but one JSON object: {{"name": "<function>", "arguments": {{<its arguments>}}}}"""
SEVERAL = "\nTo call several, write one such object on each line."


@dataclass(frozen=True, slots=True)
class CallForm:
    """The form of a call: the texts around its JSON object, and the key of its arguments."""

    opening: str = ""
    closing: str = ""
    key: str = "arguments"


TAGGED = CallForm("<tool_call>\n", "\n</tool_call>")
"""The form of Hermes and Qwen."""


def form_of(template: str) -> CallForm:
    """The form that a chat template teaches, by its Jinja source."""
    if "<tool_call>" in template:
        return TAGGED
    return CallForm(key="parameters") if '"parameters": ' in template else CallForm()  # Llama 3, or plain


def as_functions(tools: Sequence[Tool]) -> list[dict[str, Any]]:
    """Tools as chat templates expect them: in the form of OpenAI's API."""
    return [
        {
            "type": "function",
            "function": {
                "name": tool.name,
                "description": tool.description,
                "parameters": json.loads(tool.parameters),
            },
        }
        for tool in tools
    ]


def described(messages: Sequence[Message], tools: Sequence[Tool], *, several: bool) -> list[Message]:
    """The conversation for a template without tools: the system message describes them, calls and results are text."""
    turns: list[Message] = []
    names = {call.id: call.name for message in messages for call in message.tool_calls}
    for results, group in itertools.groupby(messages, lambda one: one.role == "tool" and not one.tool_calls):
        if results:
            turns.append(_results_turn(list(group), names))
            continue
        for message in group:
            if message.tool_calls:
                text = "\n".join([*([message.text] if message.text else []), *map(written, message.tool_calls)])
                message = Message(message.role, (TextPart(text),))
            turns.append(message)
    if tools:
        listed = "\n".join(json.dumps(one["function"], ensure_ascii=False) for one in as_functions(tools))
        text = DESCRIPTION.format(tools=listed) + (SEVERAL if several else "")
        if turns and turns[0].role == "system":
            turns[0] = Message("system", (*turns[0].parts, TextPart(f"\n\n{text}")))
        else:
            turns.insert(0, Message("system", (TextPart(text),)))
    return turns


def _results_turn(results: Sequence[Message], names: Mapping[str, str]) -> Message:
    """One turn of results that follow each other, since templates may require roles to alternate."""
    texts = (f"Result of {names.get(one.tool_call_id, 'a function')}: {one.text}" for one in results)
    return Message("user", (TextPart("\n".join(texts)),), tool_call_id=results[0].tool_call_id)


def arguments(call: ToolCall) -> dict[str, Any] | str:
    """The arguments of a past call: the object, or the text where a model wrote no object."""
    try:
        value = strict_json.loads(call.arguments)
    except ValueError:
        return call.arguments
    return value if isinstance(value, dict) else call.arguments


def written(call: ToolCall) -> str:
    """A call as plain JSON."""
    given = arguments(call)
    text = call.arguments if isinstance(given, dict) else json.dumps(given, ensure_ascii=False)
    return f'{{"name": {json.dumps(call.name)}, "arguments": {text}}}'
