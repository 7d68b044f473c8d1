"""OpenAI's tools: their declarations, the choice among them, and calls in both directions."""

from __future__ import annotations

import re
import secrets
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from edgeserve import strict_json
from edgeserve.api.fields import NAME_CHARS, Fields
from edgeserve.api.json_body import check_size
from edgeserve.api.json_schema import JsonSchema
from edgeserve.api.limits import Limits
from edgeserve.api.schema import Field, Object, Objects, Record
from edgeserve.api.values import Enum, Flag, Ignored, Text
from edgeserve.errors import NotSupported
from edgeserve.messages import Message, Tool, ToolCall, ToolChoice

MAX_TOOLS = 128
ALL_ARGUMENTS = "messages: the text of all arguments"
NAME = r"[a-zA-Z0-9_.-]{1,64}"


class ToolName(Field[str]):
    """The name of a tool."""

    def __init__(self) -> None:
        super().__init__("to call the function by", "", required=True)

    def read(self, fields: Fields, limits: Limits) -> str:
        name = fields.required_text(self.name)
        if not re.fullmatch(NAME, name):
            raise fields.error(self.name, "must be 1 to 64 letters, digits, dots, dashes or underscores")
        return name

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^{NAME}$"}


class Parameters(JsonSchema):
    """The JSON schema of a function's arguments, which are an object."""

    def read(self, fields: Fields, limits: Limits) -> str:
        text = super().read(fields, limits)
        kind = fields.raw(self.name).get("type", "object")
        if kind != "object":
            raise fields.error(f"{self.name}.type", f"must be object, not {kind!r}")
        return text

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "object", "properties": {"type": {"const": "object"}}}


class ToolType(Enum):
    """The type of a tool: function."""

    def __init__(self) -> None:
        super().__init__("", ("function",), required=True)

    def read(self, fields: Fields, limits: Limits) -> str:
        if (name := fields.required_text(self.name)) != "function":
            field = fields.full(self.name)
            raise NotSupported(f"{field} must be function, not {name!r}", param=field)
        return name


class DeclaredFunction(Record):
    name = ToolName()
    description = Text("what the function does")
    parameters = Parameters("JSON schema of the arguments")
    strict = Flag("accepted; arguments always follow the schema")


class DeclaredTool(Record):
    type = ToolType()
    function = Object("the function", DeclaredFunction, required=True)

    def tool(self) -> Tool:
        function = self.function
        if function.parameters:
            return Tool(function.name, function.description, function.parameters)
        return Tool(function.name, function.description)


class NamedFunction(Record):
    name = Text("of one of the tools", required=True, limit=NAME_CHARS)


class NamedTool(Record):
    type = Enum("", ("function",), default="function")
    function = Object("the function", NamedFunction, required=True)


class Allowed(Record):
    mode = Enum("required: the answer is a call", ("auto", "required"), required=True)
    tools = Objects("some of the tools", NamedTool, required=True)


class AllowedTools(Record):
    type = Enum("", ("allowed_tools",), required=True)
    allowed_tools = Object("the only tools that the model may call", Allowed, required=True)


@dataclass(frozen=True, slots=True)
class Choice:
    """The value of ``tool_choice``: a mode (auto, none, required), the one tool to call, or the tools allowed."""

    mode: str = "auto"
    name: str = ""
    allowed: Allowed | None = None


class ChoiceField(Field[Choice]):
    """``tool_choice``."""

    MODES = ("auto", "none", "required")

    def __init__(self) -> None:
        super().__init__("which of the tools the answer calls; left out: auto", Choice())

    def read(self, fields: Fields, limits: Limits) -> Choice:
        value = fields.raw(self.name)
        if isinstance(value, str) and value in self.MODES:
            return Choice(value)
        given = Fields(value, f"{fields.full(self.name)}.") if isinstance(value, dict) else Fields({})
        if given.raw("type") == "function":
            return Choice("required", NamedTool(given, limits).function.name)
        if given.raw("type") == "allowed_tools":
            allowed = AllowedTools(given, limits).allowed_tools
            return Choice(allowed.mode, allowed=allowed)
        kinds = "auto, none, required or an object of type function that names one, or of type allowed_tools"
        raise fields.error(self.name, f"must be {kinds}")

    def schema(self, limits: Limits) -> dict[str, Any]:
        named = NamedTool.describe(limits) | {"required": ["type", "function"]}
        named["properties"]["type"] = NamedTool.type.describe(limits)  # nothing else tells the two objects apart
        return {"oneOf": [{"type": "string", "enum": list(self.MODES)}, named, AllowedTools.describe(limits)]}


class Tools(Record):
    """The fields about tools."""

    tools = Objects("functions that the model may call", DeclaredTool, empty=True, limit=MAX_TOOLS)
    tool_choice = ChoiceField()
    parallel_tool_calls = Flag("whether an answer may be several calls", default=True)

    def declared(self) -> tuple[Tool, ...]:
        """The tools that the model may call: none where ``tool_choice`` is none. Raises InvalidRequest."""
        tools: dict[str, Tool] = {}
        for one in self.tools:
            tool = one.tool()
            if tool.name in tools:
                raise one.error("function.name", f"{tool.name!r} is there twice")
            tools[tool.name] = tool
        choice = self.tool_choice
        if not tools and (choice.mode == "required" or choice.allowed):
            raise self.error("tool_choice", "needs tools to choose from")
        if choice.allowed:
            names = {one.function.name for one in choice.allowed.tools}
            if unknown := names - set(tools):
                raise choice.allowed.error("tools", f"names {min(unknown)!r}, which is none of the tools")
            return tuple(tool for name, tool in tools.items() if name in names)
        if choice.name and choice.name not in tools:
            raise self.error("tool_choice", f"names {choice.name!r}, which is none of the tools")
        return () if choice.mode == "none" else tuple(tools.values())

    def choice(self) -> ToolChoice:
        """The choice as engines take it."""
        if self.tool_choice.name:
            return ToolChoice(required=True, name=self.tool_choice.name, parallel=False)
        return ToolChoice(required=self.tool_choice.mode == "required", parallel=self.parallel_tool_calls)


class Arguments(Field[str]):
    """The arguments of a call: the text of a JSON object."""

    def __init__(self) -> None:
        super().__init__("the text of a JSON object", "{}")

    def read(self, fields: Fields, limits: Limits) -> str:
        text = fields.text(self.name) or "{}"
        field = fields.full(self.name)
        try:
            check_size(text.encode(), field, field)
            arguments = strict_json.loads(text)
        except ValueError as error:
            raise fields.error(self.name, f"must be the text of a JSON object: {_short(error)}") from None
        if not isinstance(arguments, dict):
            raise fields.error(self.name, "must be the text of a JSON object")
        return text

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "string", "contentMediaType": "application/json"}


def _short(error: ValueError) -> str:
    if isinstance(error, UnicodeEncodeError):
        return "it holds half of a character, a surrogate alone"
    return str(error)


class CalledFunction(Record):
    name = ToolName()
    arguments = Arguments()


class Called(Record):
    """A call in an assistant's message."""

    id = Text("by which a tool's message names the call", required=True)
    type = Enum("", ("function",), default="function")
    function = Object("the function and its arguments", CalledFunction, required=True)
    index = Ignored("the position in a stream, which clients send back")

    def call(self) -> ToolCall:
        return ToolCall(self.function.name, self.function.arguments, self.id)


def check_arguments(messages: Iterable[Fields]) -> None:
    """Raises InvalidRequest where the arguments of all calls hold too many values, before any is read.

    A chat template gets all of them as values at once.
    """
    texts = [text for one in messages for text in _arguments(one)]
    if len(texts) > 1:  # a single one is checked by itself
        check_size(",".join(texts).encode(errors="replace"), ALL_ARGUMENTS, "messages")


def _arguments(message: Fields) -> Iterator[str]:
    """The texts of the arguments in a message that is not checked yet."""
    calls = message.raw("tool_calls")
    for call in calls if isinstance(calls, list) else ():
        function = call.get("function") if isinstance(call, dict) else None
        arguments = function.get("arguments") if isinstance(function, dict) else None
        if isinstance(arguments, str):
            yield arguments


def check_results(fields: Fields, messages: Sequence[Message]) -> None:
    """Raises InvalidRequest for a tool's message that answers no call of the messages before it."""
    known: set[str] = set()
    for index, message in enumerate(messages):
        known |= {call.id for call in message.tool_calls}
        if message.role == "tool" and message.tool_call_id not in known:
            name = f"messages[{index}].tool_call_id"
            raise fields.error(name, f"{message.tool_call_id!r} answers no call of the messages before it")


def body(call: ToolCall) -> dict[str, Any]:
    """A call as answers write it, with an id of its own."""
    function = {"name": call.name, "arguments": call.arguments}
    return {"id": call.id or f"call_{secrets.token_hex(12)}", "type": "function", "function": function}
