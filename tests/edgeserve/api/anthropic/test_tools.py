"""Tools of Anthropic's dialect, and the choice among them."""

from __future__ import annotations

from typing import Any

import pytest
from support.cases import each

from edgeserve.api.anthropic.tools import MAX_TOOLS, Tools
from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.errors import InvalidRequest
from edgeserve.messages import Tool, ToolChoice

SCHEMA = {"type": "object", "properties": {"tz": {"type": "string"}}, "required": ["tz"]}
TOOL = {"name": "get_time", "description": "the time", "input_schema": SCHEMA}
OTHER = {"name": "mcp__server__" + "a" * 100}


def tools(*declared: Any, **fields: Any) -> Tools:
    return Tools(Fields({"tools": list(declared), **fields}), Limits())


def test_tools_are_functions() -> None:
    more = {"type": "custom", "cache_control": {"type": "ephemeral"}, "defer_loading": False}
    found = tools({**TOOL, "strict": True}, {**OTHER, **more}).declared()
    text = '{"type":"object","properties":{"tz":{"type":"string"}},"required":["tz"]}'
    assert found == (Tool("get_time", "the time", text, strict=True), Tool(OTHER["name"]))


def test_tools_that_run_at_anthropic_are_left_out() -> None:
    search = {"type": "web_search_20250305", "name": "web_search", "max_uses": 8}
    assert [one.name for one in tools(search, TOOL, {"type": "bash_20250124", "name": "bash"}).declared()] == [
        "get_time"
    ]


@each(
    ("choice", "meant"),
    [
        (None, ToolChoice()),
        ({"type": "auto"}, ToolChoice()),
        ({"type": "auto", "disable_parallel_tool_use": True}, ToolChoice(parallel=False)),
        ({"type": "any"}, ToolChoice(required=True)),
        ({"type": "any", "disable_parallel_tool_use": True}, ToolChoice(required=True, parallel=False)),
        ({"type": "tool", "name": "get_time"}, ToolChoice(required=True, name="get_time", parallel=False)),
    ],
)
def test_a_choice(choice: Any, meant: ToolChoice) -> None:
    found = tools(TOOL, tool_choice=choice)
    assert found.choice() == meant
    assert len(found.declared()) == 1


def test_none_takes_the_tools_away() -> None:
    assert tools(TOOL, tool_choice={"type": "none"}).declared() == ()


@each(
    ("declared", "choice", "param"),
    [
        ([], {"type": "any"}, "tool_choice"),
        ([TOOL], {"type": "tool", "name": "other"}, "tool_choice"),
        ([TOOL], {"type": "tool"}, "tool_choice.name"),
        ([TOOL], {"type": "required"}, "tool_choice.type"),
        ([TOOL], "any", "tool_choice"),
        ([TOOL, TOOL], None, "tools[1].name"),
        ([{"name": "a b"}], None, "tools[0].name"),
        ([{"name": "a" * 129}], None, "tools[0].name"),
        ([{"description": "x"}], None, "tools[0].name"),
        ([{"type": 5, "name": "a"}], None, "tools[0].type"),
        ([{**TOOL, "input_schema": {"type": "string"}}], None, "tools[0].input_schema.type"),
        ([OTHER] * (MAX_TOOLS + 1), None, "tools"),
    ],
)
def test_an_error_names_the_field(declared: list[Any], choice: Any, param: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        tools(*declared, tool_choice=choice).declared()
    assert caught.value.param == param
