"""OpenAI's tools: their declarations, the choice among them, and calls in both directions."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from typing import Any

from edgeserve import strict_json
from edgeserve.api.fields import NAME_CHARS, Fields, check_size
from edgeserve.errors import NotSupported
from edgeserve.messages import Message, Tool, ToolCall, ToolChoice

MAX_TOOLS = 128
MAX_SCHEMA_CHARS = 65_536
NAME = re.compile(r"[a-zA-Z0-9_.-]{1,64}")


def read_tools(fields: Fields) -> tuple[Tool, ...]:
    """The field ``tools``, as far as ``tool_choice`` allows them: none of them where it is "none".

    Raises InvalidRequest and its kinds.
    """
    if fields.raw("tools") in (None, []):
        return ()
    declared = fields.objects("tools")
    if len(declared) > MAX_TOOLS:
        raise fields.error("tools", f"has {len(declared)} entries; the limit is {MAX_TOOLS}")
    tools: dict[str, Tool] = {}
    for one in declared:
        tool = _tool(one)
        if tool.name in tools:
            raise one.error("function.name", f"{tool.name!r} is there twice")
        tools[tool.name] = tool
    if (allowed := _allowed(fields)) is not None:
        names = {_named(one) for one in allowed.objects("tools")}
        if unknown := names - set(tools):
            raise allowed.error("tools", f"names {min(unknown)!r}, which is none of the tools")
        return tuple(tool for name, tool in tools.items() if name in names)
    return () if fields.raw("tool_choice") == "none" else tuple(tools.values())


def _allowed(fields: Fields) -> Fields | None:
    """What a ``tool_choice`` of type allowed_tools holds."""
    choice = fields.raw("tool_choice")
    if not isinstance(choice, dict) or choice.get("type") != "allowed_tools":
        return None
    outer = Fields(choice, "tool_choice.")
    outer.only({"type", "allowed_tools"})
    if (inner := outer.object("allowed_tools")) is None:
        raise outer.error("allowed_tools", "is required")
    inner.only({"mode", "tools"})
    return inner


def _named(fields: Fields) -> str:
    """The name in ``{"type": "function", "function": {"name"}}``; empty where there is none."""
    fields.only({"type", "function"})
    function = fields.object("function")
    if function is None:
        return ""
    function.only({"name"})
    return function.required_text("name", limit=NAME_CHARS)


def _tool(fields: Fields) -> Tool:
    fields.only({"type", "function"})
    kind = fields.required_text("type")
    function = fields.object("function")
    if kind != "function":
        raise NotSupported(f"{fields.full('type')} must be function, not {kind!r}", param=fields.full("type"))
    if function is None:
        raise fields.error("function", "is required")
    function.only({"name", "description", "parameters", "strict"})
    function.flag("strict")
    parameters = function.object("parameters")
    tool = Tool(_name(function), function.text("description") or "")
    if parameters is None or not (schema := function.raw("parameters")):
        return tool
    if schema.get("type", "object") != "object":
        raise parameters.error("type", f"must be object, not {schema['type']!r}")
    return Tool(tool.name, tool.description, schema_text(function, "parameters"))


def _name(function: Fields) -> str:
    name = function.required_text("name")
    if not NAME.fullmatch(name):
        raise function.error("name", "must be 1 to 64 letters, digits, dots, dashes or underscores")
    return name


def schema_text(fields: Fields, name: str) -> str:
    """A JSON schema as text. Raises InvalidRequest for one that is too long, or whose numbers are."""
    try:
        text = json.dumps(fields.raw(name), ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    except ValueError:  # 1e999 was read as infinite
        raise fields.error(name, "holds a number beyond the range of a float") from None
    if len(text) > MAX_SCHEMA_CHARS:
        raise fields.error(name, f"has {len(text)} characters; the limit of a schema is {MAX_SCHEMA_CHARS}")
    return text


def read_choice(fields: Fields, tools: tuple[Tool, ...]) -> ToolChoice:
    """The fields ``tool_choice`` and ``parallel_tool_calls``. Raises InvalidRequest."""
    choice, allowed = fields.raw("tool_choice"), _allowed(fields)
    parallel = fields.raw("parallel_tool_calls") is None or fields.flag("parallel_tool_calls")
    if choice in (None, "auto", "none"):
        return ToolChoice(parallel=parallel)
    if not tools:
        raise fields.error("tool_choice", "needs tools to choose from")
    if allowed is not None:
        choice = allowed.required_text("mode", limit=NAME_CHARS)
        if choice not in ("auto", "required"):
            raise allowed.error("mode", f"must be auto or required, not {choice!r}")
    if choice == "auto":
        return ToolChoice(parallel=parallel)
    if choice == "required":
        return ToolChoice(required=True, parallel=parallel)
    if not isinstance(choice, dict) or choice.get("type") != "function":
        kinds = "auto, none, required or an object of type function that names one, or of type allowed_tools"
        raise fields.error("tool_choice", f"must be {kinds}")
    name = _named(Fields(choice, "tool_choice."))
    if name not in [tool.name for tool in tools]:
        raise fields.error("tool_choice", f"names {name!r}, which is none of the tools")
    return ToolChoice(required=True, name=name, parallel=False)


def read_calls(fields: Fields) -> tuple[ToolCall, ...]:
    """The field ``tool_calls`` of an assistant's message. Raises InvalidRequest."""
    return tuple(_call(one) for one in fields.objects("tool_calls"))


def _call(fields: Fields) -> ToolCall:
    fields.only({"id", "type", "function", "index"})  # the last is of streams, whose pieces clients send back
    function = fields.object("function")
    if fields.text("type", "function") != "function":
        raise fields.error("type", "must be function")
    if function is None:
        raise fields.error("function", "is required")
    function.only({"name", "arguments"})
    text = function.text("arguments") or "{}"
    try:
        check_size(text.encode(), function.full("arguments"), function.full("arguments"))
        arguments = strict_json.loads(text)
    except ValueError as error:
        raise function.error("arguments", f"must be the text of a JSON object: {_short(error)}") from None
    if not isinstance(arguments, dict):
        raise function.error("arguments", "must be the text of a JSON object")
    return ToolCall(_name(function), text, fields.required_text("id"))


def _short(error: ValueError) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "it holds half of a character, a surrogate alone"
    return str(error)


def check_results(fields: Fields, messages: Sequence[Message]) -> None:
    """Every result must answer a call made before it. Raises InvalidRequest."""
    known: set[str] = set()
    for index, message in enumerate(messages):
        known |= {call.id for call in message.tool_calls}
        if message.role == "tool" and message.tool_call_id not in known:
            name = f"messages[{index}].tool_call_id"
            raise fields.error(name, f"{message.tool_call_id!r} answers no call of the messages before it")


def body(call: ToolCall) -> dict[str, Any]:
    """A call as answers hold it, with an id of its own."""
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id or f"call_{secrets.token_hex(12)}", "type": "function", "function": function}
