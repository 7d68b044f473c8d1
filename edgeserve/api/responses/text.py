"""``text``: the form of the answer."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from edgeserve.api.openai.response_format import (
    AnyObject,
    FormatField,
    Formed,
    FreeText,
    NamedSchema,
    ResponseFormat,
)
from edgeserve.api.schema import Record
from edgeserve.api.values import Enum


class FlatSchema(NamedSchema, Formed):
    type = Enum("", ("json_schema",), required=True)

    def form(self) -> ResponseFormat:
        return ResponseFormat(json_schema=self.schema, strict=self.strict)


class TextFormat(FormatField):
    """``text.format``."""

    VARIANTS: Mapping[str, type[Formed]] = MappingProxyType(
        {"text": FreeText, "json_object": AnyObject, "json_schema": FlatSchema}
    )


class TextConfig(Record):
    format = TextFormat()
    verbosity = Enum("accepted; it changes nothing here", ("low", "medium", "high"))

    def told(self) -> dict[str, Any]:
        """The record as the response repeats it."""
        verbosity = {"verbosity": self.verbosity} if self.verbosity else {}
        return {"format": self._given.raw("format") or {"type": "text"}} | verbosity
