"""OpenAI's ``response_format``: free text, any JSON object, or an instance of a schema."""

from __future__ import annotations

from dataclasses import dataclass

from edgeserve.api.fields import Fields
from edgeserve.api.tools import schema_text


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """``json_schema``: the schema's text, if that was asked for."""

    json_object: bool = False
    json_schema: str | None = None


KNOWN = {"text": {"type"}, "json_object": {"type", "schema"}, "json_schema": {"type", "json_schema"}}
"""The fields of each type."""


def read_format(fields: Fields) -> ResponseFormat:
    """Raises InvalidRequest. A schema is held to whether it says ``strict`` or not."""
    form = fields.object("response_format")
    if form is None:
        return ResponseFormat()
    kind = form.required_text("type")
    if kind not in KNOWN:
        raise fields.error("response_format", f"must be of type text, json_object or json_schema, not {kind!r}")
    form.only(KNOWN[kind])
    if kind == "json_schema":
        return ResponseFormat(json_schema=schema_text(_named(form), "schema"))
    if form.object("schema") is not None and form.raw("schema"):
        return ResponseFormat(json_schema=schema_text(form, "schema"))  # as llama.cpp's server and bindings take it
    return ResponseFormat(json_object=kind == "json_object")


def _named(form: Fields) -> Fields:
    """OpenAI's schema with a name."""
    named = form.object("json_schema")
    if named is None:
        raise form.error("json_schema", "is required")
    named.only({"name", "description", "schema", "strict"})
    named.required_text("name", limit=64)
    named.text("description")
    named.flag("strict")
    if named.object("schema") is None:
        raise named.error("schema", "is required")
    return named
