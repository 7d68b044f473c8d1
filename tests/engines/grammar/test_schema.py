"""Schemas as grammars: what a model says under them is valid, whatever it would rather say; the rest is refused."""

from __future__ import annotations

import datetime
import json
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from support.cases import each
from support.contract import ask
from support.hot import hot
from support.schemas import REFUSED, SHAPES, thing

from edgeserve.engine import ModelSpec
from edgeserve.engines.grammar.rules import Rules
from edgeserve.engines.grammar.schema import SchemaGrammar
from edgeserve.engines.grammar.schema_left_out import MAX_LOOSENED
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.errors import InvalidRequest
from edgeserve.messages import FinishEvent, Sampling, TokenEvent

FORMATS = jsonschema.FormatChecker()
FORMATS.checks("time", raises=ValueError)(lambda text: bool(datetime.time.fromisoformat(text)) or True)
FORMATS.checks("date-time", raises=ValueError)(lambda text: bool(datetime.datetime.fromisoformat(text)))
# Its own of "time" is that of an early draft, without a zone; that of "date-time" needs another package.

ENDLESS = {
    "any object",
    "a map",
    "property names",
    "names of a record",
    "additional properties",
    "required but undeclared",
    "linked list",
    "tree",
}
"""At such a temperature, a value without a bound may take all tokens of an answer."""

TEMPERATURES = (0.0, 1.0, 4.0)

MORE_TRIES = (1.0,) * 8
"""Temperatures for what took all tokens so far: which draw ends is chance."""

Pulled = Callable[[str], Mapping[str, Path]]


@pytest.fixture(scope="module")
def engine(pulled: Pulled) -> Iterator[LlamaChat]:
    files = {"model": pulled("smollm2-135m-instruct")["model"]}
    with hot(LlamaChat(ModelSpec("llm", "smollm2", "x", files, threads=1, options={"context": 1024}))) as engine:
        yield engine


def answer(engine: LlamaChat, schema: Any, tokens: int, **sampling: Any) -> tuple[str, FinishEvent]:
    question = ask(
        "Give me an example.", json_schema=json.dumps(schema), max_tokens=tokens, sampling=Sampling(**sampling)
    )
    *tokens, finish = engine.chat(question, threading.Event())
    assert isinstance(finish, FinishEvent)
    return "".join(token.text for token in tokens if isinstance(token, TokenEvent)), finish


@pytest.mark.models
@pytest.mark.parametrize("name", SHAPES)
def test_what_is_said_is_valid(engine: LlamaChat, name: str) -> None:
    """Also when nearly every token is as likely as another."""
    schema = SHAPES[name]
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema, format_checker=FORMATS)
    ended = 0
    for seed, temperature in enumerate((*TEMPERATURES, *MORE_TRIES)):
        if seed >= len(TEMPERATURES) and (ended or name not in ENDLESS):
            break
        tokens = 150 if name in ENDLESS else 300
        said, finish = answer(engine, schema, tokens, seed=seed, temperature=temperature, top_k=0, top_p=1.0, min_p=0.0)
        if finish.reason == "stop":
            ended += 1
            validator.validate(json.loads(said))
    assert ended >= (1 if name in ENDLESS else len(TEMPERATURES))


LOOSENED = {
    "not": "not",
    "conditions": "if at properties/a",
    "multiples": "multipleOf at properties/a",
    "unique items": "uniqueItems",
    "overlapping oneOf": "oneOf",
    "look-ahead": "pattern",
    "pattern against length": "maxLength",
    "pattern below length": "minLength",
    "property names beside properties": "propertyNames",
    "a property that no name allows": "propertyNames",
}


@each("name", LOOSENED)
def test_a_schema_that_is_not_strict_loses_the_keyword(name: str) -> None:
    made = SchemaGrammar(Rules(), REFUSED[name][0], "response_format", strict=False)
    assert made.convert()
    assert made.loosened[0] == LOOSENED[name]


def test_only_the_value_that_no_grammar_expresses_is_left_out() -> None:
    texts = {"a": {"pattern": "^(?=a)b$"}, "b": {"pattern": "^b$"}, "c": {"not": {}, "type": "integer"}}
    made = SchemaGrammar(Rules(), thing(**texts), "", strict=False)
    made.convert()
    kept = SchemaGrammar(Rules(), thing(a={"type": "string"}, b=texts["b"], c={"type": "integer"}), "")
    assert made.loosened == ["pattern at properties/a"]  # an empty not is no assertion here
    assert kept.convert()


def test_a_schema_with_many_such_keywords_is_refused_in_the_end() -> None:
    parts = {f"p{number}": {"pattern": f"^(?=a)b{{{number}}}$"} for number in range(MAX_LOOSENED + 1)}
    with pytest.raises(InvalidRequest, match="looks around"):
        SchemaGrammar(Rules(), thing(**parts), "", strict=False).convert()


@each(
    ("schema", "told"),
    [
        ({"type": "number", "multipleOf": 0}, "which is not above 0"),
        ({"type": "integer", "multipleOf": 0.5}, "for whole numbers"),
        ({"type": "integer", "minimum": 0, "maximum": 1000, "multipleOf": 3}, "between near bounds only"),
        ({"type": "integer", "minimum": 1, "maximum": 2, "multipleOf": 3}, "leaves no number"),
        ({"type": "integer", "minimum": 1e17}, "more than 15 digits"),
    ],
)
def test_numbers_that_no_grammar_expresses(schema: Any, told: str) -> None:
    with pytest.raises(InvalidRequest, match=told):
        SchemaGrammar(Rules(), schema, "").convert()


@each("name", REFUSED)
def test_what_cannot_be_held_to_is_refused_by_name(name: str) -> None:
    schema, told = REFUSED[name]
    with pytest.raises(InvalidRequest, match=told) as caught:
        SchemaGrammar(Rules(), schema, "response_format").convert()
    assert caught.value.param == "response_format"
    assert caught.value.message.startswith("response_format: the schema ")
