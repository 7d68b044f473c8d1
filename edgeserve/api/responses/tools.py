"""Tools as Responses has them: flat, and of many types, of which the server knows functions alone."""

from __future__ import annotations

from typing import Any

from edgeserve.api.fields import NAME_CHARS, Fields
from edgeserve.api.limits import Limits
from edgeserve.api.schema import VISIBLE, Field, Record
from edgeserve.api.tools import MAX_TOOLS, Choice, ChoiceField, DeclaredFunction, Tools
from edgeserve.api.values import Enum, Text

FUNCTION = "function"
OTHER: dict[str, Any] = {
    "type": "object",
    "required": ["type"],
    "properties": {"type": {"type": "string", "minLength": 1, "pattern": VISIBLE, "not": {"const": FUNCTION}}},
}
"""JSON schema of a tool of another type."""


class FunctionTool(DeclaredFunction):
    type = Enum("", (FUNCTION,), required=True)

    def told(self) -> dict[str, Any]:
        """The tool as the response repeats it."""
        names = ("type", "name", "description", "parameters", "strict")
        return {name: self._given.raw(name) for name in names}


class FunctionTools(Field[tuple[FunctionTool, ...]]):
    """``tools``. A tool of another type is left out: Codex and others always send some."""

    def __init__(self) -> None:
        super().__init__("functions that the model may call; tools of other types are left out", ())

    def read(self, fields: Fields, limits: Limits) -> tuple[FunctionTool, ...]:
        if fields.raw(self.name) == []:
            return ()
        given = fields.objects(self.name)
        if len(given) > MAX_TOOLS:
            raise fields.error(self.name, f"has {len(given)} entries; the limit is {MAX_TOOLS}")
        functions = [one for one in given if one.required_text("type", limit=NAME_CHARS) == FUNCTION]
        return tuple(FunctionTool(one, limits) for one in functions)

    def schema(self, limits: Limits) -> dict[str, Any]:
        items = {"oneOf": [FunctionTool.describe(limits), OTHER]}
        return {"type": "array", "items": items, "maxItems": MAX_TOOLS}


class NamedFunctionTool(Record):
    type = Enum("", (FUNCTION,), required=True)
    name = Text("of one of the tools", required=True, limit=NAME_CHARS)


class Names(Field[tuple[str, ...]]):
    """Names of functions among tools of any type."""

    def __init__(self) -> None:
        super().__init__("some of the tools, at least one of them a function", (), required=True)

    def read(self, fields: Fields, limits: Limits) -> tuple[str, ...]:
        given = fields.objects(self.name)
        functions = [one for one in given if one.required_text("type", limit=NAME_CHARS) == FUNCTION]
        if not functions:
            raise fields.error(self.name, "must name a function: the server has no tools of other types")
        return tuple(NamedFunctionTool(one, limits).name for one in functions)

    def schema(self, limits: Limits) -> dict[str, Any]:
        named = NamedFunctionTool.describe(limits)
        return {"type": "array", "items": {"oneOf": [named, OTHER]}, "contains": named}


class AllowedFunctions(Record):
    type = Enum("", ("allowed_tools",), required=True)
    mode = Enum("required: the answer is a call", ("auto", "required"), required=True)
    tools = Names()

    @property
    def names(self) -> tuple[str, ...]:
        return self.tools


class FlatChoice(ChoiceField):
    """``tool_choice``."""

    def read(self, fields: Fields, limits: Limits) -> Choice:
        value = fields.raw(self.name)
        if not isinstance(value, dict):
            return super().read(fields, limits)
        given = fields.inner(value, f"{fields.full(self.name)}.")
        if given.raw("type") == FUNCTION:
            return Choice("required", NamedFunctionTool(given, limits).name)
        if given.raw("type") == "allowed_tools":
            allowed = AllowedFunctions(given, limits)
            return Choice(allowed.mode, allowed=allowed)
        kinds = "auto, none, required, any or an object of type function that names one, or of type allowed_tools"
        raise fields.error(self.name, f"must be {kinds}: the server has no tools of other types")

    def schema(self, limits: Limits) -> dict[str, Any]:
        modes = {"type": "string", "enum": list(self.MODES)}
        return {"oneOf": [modes, NamedFunctionTool.describe(limits), AllowedFunctions.describe(limits)]}


class FlatTools(Tools):
    """The fields about tools."""

    tools = FunctionTools()  # type: ignore[assignment]
    tool_choice = FlatChoice()

    @property
    def functions(self) -> tuple[FunctionTool, ...]:
        """The tools that are functions."""
        functions: Any = self.tools
        return tuple(functions)

    def _functions(self) -> tuple[DeclaredFunction, ...]:
        return self.functions
