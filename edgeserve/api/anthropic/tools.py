"""Tools of a request, and the choice among them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from edgeserve.api.anthropic.values import LongToolName
from edgeserve.api.fields import NAME_CHARS, Fields
from edgeserve.api.limits import Limits
from edgeserve.api.schema import Field, Record, read_variant
from edgeserve.api.tools import Parameters
from edgeserve.api.values import Enum, Flag, Ignored, Text
from edgeserve.dataclass import dataclass
from edgeserve.messages import Tool, ToolChoice

MAX_TOOLS = 512
"""Tools of one request. Claude Code with a few servers of tools declares more than a hundred."""
CUSTOM = "custom"


class CustomTool(Record):
    """A function that the client runs."""

    type = Enum("", (CUSTOM,))
    name = LongToolName()
    description = Text("what the function does")
    input_schema = Parameters("JSON schema of the arguments")
    strict = Flag("a keyword of input_schema that a grammar cannot express is an error; without it, it is loosened")
    cache_control = Ignored()
    defer_loading = Ignored("accepted; every tool is told to the model")
    eager_input_streaming = Ignored()
    allowed_callers = Ignored()
    input_examples = Ignored()

    def tool(self) -> Tool:
        if self.input_schema:
            return Tool(self.name, self.description, self.input_schema, self.strict)
        return Tool(self.name, self.description)


class ToolsField(Field[tuple[CustomTool, ...]]):
    """``tools``. Tools of another type run at Anthropic, and are left out."""

    def __init__(self) -> None:
        super().__init__("functions that the model may call; tools that Anthropic runs are left out", ())

    def read(self, fields: Fields, limits: Limits) -> tuple[CustomTool, ...]:
        given = [] if fields.raw(self.name) == [] else fields.objects(self.name)
        if len(given) > MAX_TOOLS:
            raise fields.error(self.name, f"has {len(given)} entries; the limit is {MAX_TOOLS}")
        own = [one for one in given if one.text("type", limit=NAME_CHARS) == CUSTOM or one.raw("type") is None]
        return tuple(CustomTool(one, limits) for one in own)

    def schema(self, limits: Limits) -> dict[str, Any]:
        kind = {"type": "string", "maxLength": NAME_CHARS, "not": {"const": CUSTOM}}
        other = {"type": "object", "required": ["type"], "properties": {"type": kind}}
        return {"type": "array", "items": {"oneOf": [CustomTool.describe(limits), other]}, "maxItems": MAX_TOOLS}


class FreeChoice(Record):
    type = Enum("auto: the model may call; any: it must", ("auto", "any"), required=True)
    disable_parallel_tool_use = Flag("the answer is one call at most")


class NoChoice(Record):
    type = Enum("none: the model may not call", ("none",), required=True)
    disable_parallel_tool_use = Ignored()


class NamedChoice(Record):
    type = Enum("tool: the model must call this one", ("tool",), required=True)
    name = Text("of one of the tools", required=True, limit=NAME_CHARS)
    disable_parallel_tool_use = Ignored("accepted; the answer is one call")


CHOICES: Mapping[str, type[FreeChoice | NoChoice | NamedChoice]] = MappingProxyType(
    {"auto": FreeChoice, "any": FreeChoice, "none": NoChoice, "tool": NamedChoice}
)


@dataclass(frozen=True, slots=True)
class Choice:
    """The value of ``tool_choice``: a type, the one tool to call, and whether the answer may be several calls."""

    type: str = "auto"
    name: str = ""
    parallel: bool = True


class ChoiceField(Field[Choice]):
    """``tool_choice``."""

    def __init__(self) -> None:
        super().__init__("which of the tools the answer calls; left out: auto", Choice())

    def read(self, fields: Fields, limits: Limits) -> Choice:
        given = fields.object(self.name)
        if given is None:
            return self.default
        read = read_variant(given, CHOICES, limits)
        if isinstance(read, NamedChoice):
            return Choice(read.type, read.name, parallel=False)
        return Choice(read.type, parallel=isinstance(read, NoChoice) or not read.disable_parallel_tool_use)

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"oneOf": [one.describe(limits) for one in dict.fromkeys(CHOICES.values())]}


class Tools(Record):
    """The fields about tools."""

    tools = ToolsField()
    tool_choice = ChoiceField()

    def declared(self) -> tuple[Tool, ...]:
        """The tools that the model may call: none where ``tool_choice`` is none. Raises InvalidRequest."""
        tools: dict[str, Tool] = {}
        for one in self.tools:
            if one.name in tools:
                raise one.error("name", f"{one.name!r} is there twice")
            tools[one.name] = one.tool()
        choice = self.tool_choice
        if choice.type == "any" and not tools:
            raise self.error("tool_choice", "needs tools to choose from")
        if choice.type == "tool" and choice.name not in tools:
            raise self.error("tool_choice", f"names {choice.name!r}, which is none of the tools")
        return () if choice.type == "none" else tuple(tools.values())

    def choice(self) -> ToolChoice:
        """The choice as engines take it."""
        choice = self.tool_choice
        return ToolChoice(choice.type in ("any", "tool"), choice.name or None, choice.parallel)
