"""OpenAI's ``response_format``: free text, any JSON object, or an instance of a schema."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from edgeserve.api.fields import Fields
from edgeserve.api.json_schema import JsonSchema
from edgeserve.api.limits import Limits
from edgeserve.api.openai.accepted import Unavailable
from edgeserve.api.schema import Field, Object, Record, read_variant
from edgeserve.api.values import Enum, Flag, Text
from edgeserve.dataclass import dataclass

BY_SCHEMA = "a schema belongs to the type json_schema"


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """The form of an answer, as ``ChatRequest`` has it."""

    json_object: bool = False
    json_schema: str | None = None
    grammar: str | None = None
    pattern: str | None = None
    choices: tuple[str, ...] = ()
    strict: bool = False


FREE = ResponseFormat()


class Formed(Record, ABC):
    """A form of the answer, of one type."""

    @abstractmethod
    def form(self) -> ResponseFormat: ...


class FreeText(Formed):
    type = Enum("", ("text",), required=True)
    schema = Unavailable(BY_SCHEMA)
    json_schema = Unavailable(BY_SCHEMA)

    def form(self) -> ResponseFormat:
        return FREE


class AnyObject(Formed):
    type = Enum("", ("json_object",), required=True)
    schema = JsonSchema("holds the answer to it, as in llama.cpp's server")
    json_schema = Unavailable(BY_SCHEMA)

    def form(self) -> ResponseFormat:
        return ResponseFormat(json_schema=self.schema) if self.schema else ResponseFormat(json_object=True)


class NamedSchema(Record):
    name = Text("of the schema", limit=64)
    description = Text("of the schema")
    schema = JsonSchema("the schema", required=True)
    strict = Flag("a keyword that a grammar cannot express is an error; without it the answer may break the keyword")


class BySchema(Formed):
    type = Enum("", ("json_schema",), required=True)
    json_schema = Object("the schema with its name", NamedSchema, required=True)
    schema = Unavailable("the schema belongs into json_schema")

    def form(self) -> ResponseFormat:
        return ResponseFormat(json_schema=self.json_schema.schema, strict=self.json_schema.strict)


FORMS: Mapping[str, type[Formed]] = MappingProxyType(
    {"text": FreeText, "json_object": AnyObject, "json_schema": BySchema}
)


class FormatField(Field[ResponseFormat]):
    """``response_format``."""

    VARIANTS: Mapping[str, type[Formed]] = FORMS

    def __init__(self) -> None:
        super().__init__("the form of the answer; left out: free text", FREE)

    def read(self, fields: Fields, limits: Limits) -> ResponseFormat:
        nested = fields.object(self.name)
        return self.default if nested is None else read_variant(nested, self.VARIANTS, limits).form()

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"oneOf": [one.describe(limits) for one in self.VARIANTS.values()]}
