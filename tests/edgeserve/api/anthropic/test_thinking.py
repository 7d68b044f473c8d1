"""Fields about thoughts and the form of the answer."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support.cases import each

from edgeserve.api.anthropic.thinking import Shaped, Wish
from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.errors import InvalidRequest

SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}}


def shaped(**fields: Any) -> Shaped:
    return Shaped(Fields(fields), Limits())


@each(
    ("thinking", "wish"),
    [
        (None, Wish(False)),
        ({"type": "disabled"}, Wish(False)),
        ({"type": "enabled", "budget_tokens": 1024}, Wish(True, told=True)),
        ({"type": "enabled", "budget_tokens": 1024, "display": "omitted"}, Wish(True)),
        ({"type": "adaptive"}, Wish(None, told=True)),
        ({"type": "adaptive", "display": "summarized"}, Wish(None, told=True)),
    ],
)
def test_thoughts_are_off_unless_the_client_asks(thinking: Any, wish: Wish) -> None:
    assert shaped(thinking=thinking).thinking == wish


@pytest.mark.parametrize(
    "fields",
    [
        {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}},
        {"output_format": {"type": "json_schema", "schema": SCHEMA}},
    ],
)
def test_a_schema_holds_the_answer(fields: dict[str, Any]) -> None:
    assert json.loads(shaped(**fields).json_schema or "") == SCHEMA


def test_effort_is_a_variable_of_the_template() -> None:
    assert json.loads(shaped(output_config={"effort": "low"}).variables()) == {"reasoning_effort": "low"}
    assert (shaped().variables(), shaped().json_schema) == ("", None)


@each(
    ("fields", "param"),
    [
        ({"thinking": {"type": "on"}}, "thinking.type"),
        ({"thinking": True}, "thinking"),
        ({"thinking": {"type": "enabled", "budget_tokens": -1}}, "thinking.budget_tokens"),
        ({"output_config": {"effort": "none"}}, "output_config.effort"),
        ({"output_config": {"format": {"type": "json"}}}, "output_config.format.type"),
        ({"output_format": {"type": "json_schema"}}, "output_format.schema"),
    ],
)
def test_an_error_names_the_field(fields: dict[str, Any], param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        shaped(**fields)
    assert caught.value.param == param
