"""Schemas that try to hurt: each becomes a grammar that llama.cpp can read, or an error of its request."""

from __future__ import annotations

import contextlib
import json
import threading
import tracemalloc
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from support.contract import ask
from support.examples import examples
from support.hostile_schemas import REFUSED_HOSTILE, TAKEN_HOSTILE, schemas
from support.schemas import thing

from edgeserve.engines.grammar import limits
from edgeserve.engines.grammar.rules import MAX_STEPS, Rules
from edgeserve.engines.grammar.schema import SchemaGrammar
from edgeserve.engines.llama.grammar import grammar
from edgeserve.engines.llama.tools import TAGGED, CallForm
from edgeserve.errors import InvalidRequest
from edgeserve.messages import Tool, ToolChoice

MOST_AT_ONCE = 200_000
"""Steps of one piece of work, which a budget can stop only before and after."""


DEAR = pytest.param("a long enum beside many branches", marks=pytest.mark.slow)


@pytest.mark.slow
@pytest.mark.parametrize("name", [DEAR, *(name for name in REFUSED_HOSTILE if name not in DEAR.values)])
def test_what_would_hurt_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest) as caught:
        grammar(ask("Hi", json_schema=json.dumps(REFUSED_HOSTILE[name]), strict=True), CallForm())
    assert caught.value.param == "response_format"
    assert caught.value.message.startswith("response_format: the schema ")
    assert len(caught.value.message) < 1000


@pytest.mark.slow
@pytest.mark.parametrize("name", [DEAR, *(name for name in REFUSED_HOSTILE if name not in DEAR.values)])
def test_what_would_hurt_is_refused_or_left_out_where_the_schema_is_not_strict(name: str) -> None:
    rules = Rules()
    made = SchemaGrammar(rules, REFUSED_HOSTILE[name], "response_format", strict=False)
    with contextlib.suppress(InvalidRequest, limits.Unsayable):  # an exception of any other kind fails the test
        root = made.convert()
        limits.check(rules.text(root))
        assert made.loosened, "neither refused nor left out"
        assert rules.budget.spent <= MAX_STEPS, "a grammar beyond the budget is refused"


@pytest.mark.slow
@pytest.mark.parametrize("name", TAKEN_HOSTILE)
def test_what_is_only_large_is_taken(name: str) -> None:
    assert grammar(ask("Hi", json_schema=json.dumps(TAKEN_HOSTILE[name])), CallForm())


@pytest.mark.slow
@given(schemas())
@examples(150)
def test_any_schema_becomes_a_grammar_or_an_error(schema: Any) -> None:
    for strict in (True, False):
        rules = Rules()
        with contextlib.suppress(InvalidRequest, limits.Unsayable):  # an exception of any other kind fails the test
            root = SchemaGrammar(rules, schema, "response_format", strict=strict).convert()
            limits.check(rules.text(root))
        assert rules.budget.spent <= MAX_STEPS + MOST_AT_ONCE


@pytest.mark.slow
@given(schemas())
@examples(30)
def test_any_parameters_of_a_tool_do(schema: Any) -> None:
    tools = (Tool("first", "", json.dumps(schema)), Tool("second"))
    assert grammar(ask("Hi", tools=tools), TAGGED)  # whatever they are: the model may say no call at all
    with contextlib.suppress(InvalidRequest):  # an exception of any other kind fails the test
        assert grammar(ask("Hi", tools=tools, tool_choice=ToolChoice(required=True)), TAGGED)


@pytest.mark.parametrize(
    "parameters",
    [
        lambda index: thing(x={"type": "string", "maxLength": 1900 + index}),
        lambda index: thing(x={"enum": [f"{index}-{one}" for one in range(3000)]}),
    ],
)
def test_tools_too_large_together_are_refused_where_a_call_is_required(parameters: Callable[[int], Any]) -> None:
    tools = tuple(Tool(f"t{index}", "", json.dumps(parameters(index))) for index in range(100))
    with pytest.raises(InvalidRequest):
        grammar(ask("Hi", tools=tools, tool_choice=ToolChoice(required=True)), TAGGED)


def test_many_threads_make_grammars_at_once() -> None:
    wanted = [json.dumps({"type": "array", "items": TAKEN_HOSTILE["any JSON"], "maxItems": most}) for most in range(12)]
    alone = [grammar(ask("Hi", json_schema=one), CallForm()) for one in wanted]
    made: list[list[str | None]] = []
    threads = [
        threading.Thread(
            target=lambda: made.append([grammar(ask("Hi", json_schema=one), CallForm()) for one in wanted])
        )
        for _ in range(4)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert made == [alone] * 4


@pytest.mark.slow
@pytest.mark.parametrize("required", [True, False])
def test_grammars_that_are_kept_keep_no_large_request(required: bool) -> None:
    """32 of them held up to 16 MB each, whether the prompt was answered or refused."""
    wide = json.dumps({"type": "object", "description": "x" * 200_000})
    choice = ToolChoice(required=required)
    tracemalloc.start()
    try:
        for index in range(10):
            described = Tool(f"t{index}", "x" * 200_000)
            grammar(ask("Hi", tools=(described,), tool_choice=choice), CallForm())
            grammar(ask("Hi", tools=(Tool(f"t{index}", "", wide),), tool_choice=choice), CallForm())
        assert tracemalloc.get_traced_memory()[0] < 1_000_000
    finally:
        tracemalloc.stop()
