"""JSON schemas in fields."""

from __future__ import annotations

import json

import pytest
from support.turns import calls_in_json

from edgeserve.api.fields import Fields
from edgeserve.api.json_schema import JsonSchema
from edgeserve.api.limits import Limits
from edgeserve.api.schema import Record
from edgeserve.errors import InvalidRequest


class Body(Record):
    form = JsonSchema("a schema")


def test_a_schema_is_written_as_json_writes_it() -> None:
    schema = {"enum": ['é\n"', 1, -2.5e-7, 10**30, True, None, [], {}, [{}]], "a": {"b": {}}}
    text = Body(Fields({"form": schema}), Limits()).form
    assert text == json.dumps(schema, ensure_ascii=False, separators=(",", ":"))


def test_other_threads_run_while_many_numbers_are_written() -> None:
    fields = Fields({"form": {"enum": [2.5e-7] * 2_000}})
    assert calls_in_json(lambda: Body(fields, Limits())) >= 2_000


def test_a_long_schema_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="has 80008 characters; the limit of a schema is 65536"):
        Body(Fields({"form": {"a": "x" * 80_000}}), Limits())
