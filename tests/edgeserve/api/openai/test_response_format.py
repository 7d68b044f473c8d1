"""The forms of ``response_format``. The server refuses every field that it does not read."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.cases import each

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.openai.response_format import FormatField, ResponseFormat
from edgeserve.api.schema import Record
from edgeserve.errors import InvalidRequest


class Body(Record):
    response_format = FormatField()


def read(form: Any) -> ResponseFormat:
    return Body(Fields({"response_format": form}), Limits(unknown_fields="refuse")).response_format


SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}}
TEXT = json.dumps(SCHEMA, separators=(",", ":"))
NAMED = {"name": "city", "schema": SCHEMA}


@each(
    ("form", "meant"),
    [
        (None, ResponseFormat()),
        ({"type": "text"}, ResponseFormat()),
        ({"type": "json_object"}, ResponseFormat(json_object=True)),
        ({"type": "json_object", "schema": None}, ResponseFormat(json_object=True)),
        ({"type": "json_object", "schema": {}}, ResponseFormat(json_object=True)),
        ({"type": "json_object", "schema": SCHEMA}, ResponseFormat(json_schema=TEXT)),
        ({"type": "json_schema", "json_schema": NAMED}, ResponseFormat(json_schema=TEXT)),
        (
            {"type": "json_schema", "json_schema": {**NAMED, "strict": True, "description": "x"}},
            ResponseFormat(json_schema=TEXT, strict=True),
        ),
    ],
)
def test_a_schema_is_never_dropped(form: Any, meant: ResponseFormat) -> None:
    assert read(form) == meant


@each(
    ("form", "param"),
    [
        ({"type": "text", "schema": SCHEMA}, "response_format.schema"),
        ({"type": "text", "json_schema": NAMED}, "response_format.json_schema"),
        ({"type": "json_object", "json_schema": NAMED}, "response_format.json_schema"),
        ({"type": "json_object", "strict": True}, "response_format.strict"),
        ({"type": "json_object", "schema": []}, "response_format.schema"),
        ({"type": "json_object", "schema": {"const": 1e999}}, "response_format.schema"),
        ({"type": "json_object", "schema": {"title": "x" * 70_000}}, "response_format.schema"),
        ({"type": "json_schema", "json_schema": NAMED, "schema": SCHEMA}, "response_format.schema"),
        ({"type": "json_schema", "json_schema": {**NAMED, "title": "x"}}, "response_format.json_schema.title"),
        (
            {"type": "json_schema", "json_schema": {**NAMED, "description": 3}},
            "response_format.json_schema.description",
        ),
        (
            {"type": "json_schema", "json_schema": {**NAMED, "schema": {"a": -1e999}}},
            "response_format.json_schema.schema",
        ),
        ({"type": ["json_object"]}, "response_format.type"),
        ({"schema": SCHEMA}, "response_format.type"),
        ("json_object", "response_format"),
    ],
)
def test_wrong_and_undeclared_fields_are_refused_by_name(form: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        read(form)
    assert caught.value.param == param
