"""OpenAI's tools: their declarations, and the choice among them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Protocol

from edgeserve.api.fields import NAME_CHARS, Fields
from edgeserve.api.json_schema import JsonSchema
from edgeserve.api.limits import Limits
from edgeserve.api.schema import Field, Object, Objects, Record
from edgeserve.api.values import Enum, Flag, Text
from edgeserve.dataclass import dataclass
from edgeserve.errors import InvalidRequest, NotSupported
from edgeserve.messages import Tool, ToolChoice

MAX_TOOLS = 128
NAME = r"[a-zA-Z0-9_.-]"
"""A character of a tool's name."""


class ToolName(Field[str]):
    """The name of a tool, of at most ``LONGEST`` characters."""

    LONGEST = 64

    def __init__(self) -> None:
        super().__init__("to call the function by", "", required=True)

    def read(self, fields: Fields, limits: Limits) -> str:
        name = fields.required_text(self.name)
        if not re.fullmatch(self._pattern, name):
            text = f"must be 1 to {self.LONGEST} letters, digits, dots, dashes or underscores"
            raise fields.error(self.name, text)
        return name

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "string", "pattern": f"^{self._pattern}$"}

    @property
    def _pattern(self) -> str:
        return f"{NAME}{{1,{self.LONGEST}}}"


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
    strict = Flag("a keyword of parameters that a grammar cannot express is an error; without it, it is loosened")

    def tool(self) -> Tool:
        if self.parameters:
            return Tool(self.name, self.description, self.parameters, self.strict)
        return Tool(self.name, self.description)


class DeclaredTool(Record):
    type = ToolType()
    function = Object("the function", DeclaredFunction, required=True)


class NamedFunction(Record):
    name = Text("of one of the tools", required=True, limit=NAME_CHARS)


class NamedTool(Record):
    type = Enum("", ("function",), default="function")
    function = Object("the function", NamedFunction, required=True)


class Allowed(Record):
    mode = Enum("required: the answer is a call", ("auto", "required"), required=True)
    tools = Objects("some of the tools", NamedTool, required=True)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(one.function.name for one in self.tools)


class AllowedTools(Record):
    type = Enum("", ("allowed_tools",), required=True)
    allowed_tools = Object("the only tools that the model may call", Allowed, required=True)


class Permitted(Protocol):
    """The record of some of the tools: the only ones that the model may call."""

    @property
    def mode(self) -> str: ...

    @property
    def names(self) -> tuple[str, ...]: ...

    def error(self, field: str, text: str) -> InvalidRequest: ...


@dataclass(frozen=True, slots=True)
class Choice:
    """The value of ``tool_choice``: a mode (auto, none, required), the one tool to call, or the tools allowed."""

    mode: str = "auto"
    name: str = ""
    allowed: Permitted | None = None


class ChoiceField(Field[Choice]):
    """``tool_choice``."""

    MODES: Mapping[str, str] = MappingProxyType(
        {one: one for one in ("auto", "none", "required")} | {"any": "required"}
    )

    def __init__(self) -> None:
        super().__init__("which of the tools the answer calls; left out: auto", Choice())

    def read(self, fields: Fields, limits: Limits) -> Choice:
        value = fields.raw(self.name)
        if isinstance(value, str) and value in self.MODES:
            return Choice(self.MODES[value])
        given = fields.inner(value, f"{fields.full(self.name)}.") if isinstance(value, dict) else Fields({})
        if given.raw("type") == "function":
            return Choice("required", NamedTool(given, limits).function.name)
        if given.raw("type") == "allowed_tools":
            allowed = AllowedTools(given, limits).allowed_tools
            return Choice(allowed.mode, allowed=allowed)
        kinds = "auto, none, required, any or an object of type function that names one, or of type allowed_tools"
        raise fields.error(self.name, f"must be {kinds}")

    def schema(self, limits: Limits) -> dict[str, Any]:
        named = NamedTool.describe(limits) | {"required": ["type", "function"]}
        named["properties"]["type"] = NamedTool.type.describe(limits)  # the two objects differ in nothing else
        return {"oneOf": [{"type": "string", "enum": list(self.MODES)}, named, AllowedTools.describe(limits)]}


class FunctionChoice(Field[Choice]):
    """``function_call`` of a request: auto, none, or the name of a function."""

    MODES = ("auto", "none")

    def __init__(self) -> None:
        super().__init__("the older form of tool_choice", Choice())

    def read(self, fields: Fields, limits: Limits) -> Choice:
        value = fields.raw(self.name)
        if isinstance(value, str) and value in self.MODES:
            return Choice(value)
        if (given := fields.object(self.name) if isinstance(value, dict) else None) is not None:
            return Choice("required", NamedFunction(given, limits).name)
        raise fields.error(self.name, "must be auto, none or an object with the name of a function")

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"oneOf": [{"type": "string", "enum": list(self.MODES)}, NamedFunction.describe(limits)]}


class Tools(Record):
    """The fields about tools."""

    tools = Objects("functions that the model may call", DeclaredTool, empty=True, limit=MAX_TOOLS)
    tool_choice = ChoiceField()
    parallel_tool_calls = Flag("whether an answer may be several calls", default=True)

    def declared(self) -> tuple[Tool, ...]:
        """The tools that the model may call: none where ``tool_choice`` is none. Raises InvalidRequest."""
        tools: dict[str, Tool] = {}
        for function in self._functions():
            tool = function.tool()
            if tool.name in tools:
                raise function.error("name", f"{tool.name!r} is there twice")
            tools[tool.name] = tool
        choice, field = self._chosen()
        if not tools and (choice.mode == "required" or choice.allowed):
            raise self.error(field, f"needs {self._noun} to choose from")
        if choice.allowed:
            names = set(choice.allowed.names)
            if unknown := names - set(tools):
                raise choice.allowed.error("tools", f"names {min(unknown)!r}, which is none of the tools")
            return tuple(tool for name, tool in tools.items() if name in names)
        if choice.name and choice.name not in tools:
            raise self.error(field, f"names {choice.name!r}, which is none of the tools")
        return () if choice.mode == "none" else tuple(tools.values())

    def choice(self) -> ToolChoice:
        """The choice as engines take it."""
        choice = self._chosen()[0]
        if choice.name:
            return ToolChoice(required=True, name=choice.name, parallel=False)
        return ToolChoice(required=choice.mode == "required", parallel=self._parallel)

    def _functions(self) -> tuple[DeclaredFunction, ...]:
        """The functions of all tools. Raises InvalidRequest."""
        return tuple(one.function for one in self.tools)

    def _chosen(self) -> tuple[Choice, str]:
        """The choice, and the field that it comes from."""
        return self.tool_choice, "tool_choice"

    @property
    def _noun(self) -> str:
        return "tools"

    @property
    def _parallel(self) -> bool:
        return self.parallel_tool_calls


class ToolsOrFunctions(Tools):
    """The fields about tools, and their older forms."""

    functions = Objects("the older form of tools", DeclaredFunction, empty=True, limit=MAX_TOOLS)
    function_call = FunctionChoice()

    @property
    def old_style(self) -> bool:
        """Whether the request declares functions, and so the answer has a ``function_call``."""
        return bool(self.functions)

    def _functions(self) -> tuple[DeclaredFunction, ...]:
        if self.tools and self.functions:
            raise self.error("functions", "cannot stand beside tools, their newer form")
        return (*super()._functions(), *self.functions)

    def _chosen(self) -> tuple[Choice, str]:
        if self.has("function_call") and not self.has("tool_choice"):
            return self.function_call, "function_call"
        return super()._chosen()

    @property
    def _noun(self) -> str:
        return "functions" if self.old_style else "tools"

    @property
    def _parallel(self) -> bool:
        return self.parallel_tool_calls and not self.old_style
