"""The text that a grammar leaves as the only continuation."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.examples import examples

from edgeserve.engine import ModelSpec
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.constraint import Constraint
from edgeserve.engines.llama.forced import ASCII, LARGEST, LONGEST, Ahead, probes
from edgeserve.engines.llama.grammar import grammar
from edgeserve.engines.llama.model import MappedModel
from edgeserve.engines.llama.tools import CallForm
from edgeserve.messages import ChatRequest


def test_all_that_a_grammar_names_is_probed() -> None:
    found = probes('root ::= "é" [\\u00A0-\\uD7FF] "\\n" [\\x01-\\x1F] [\\U00010000-\\U0010FFFF] "\t"')
    assert set(ASCII) <= set(found)
    assert {"é", "\u00a0", "\ud7ff", "\n", "\x01", "\x1f", "\U00010000", "\U0010ffff", "\t"} <= set(found)
    assert len(found) == len(set(found))


@pytest.fixture(scope="module")
def model(pulled: Callable[[str], Mapping[str, Path]]) -> Iterator[MappedModel]:
    files = {"model": pulled("smollm2-135m-instruct")["model"]}
    engine = LlamaChat(ModelSpec("llm", "smollm2", "x", files, threads=1, options={"context": 64}))
    engine.open()
    assert engine._model is not None
    yield engine._model
    engine.close()


def ahead(model: MappedModel, rules: str, begun: str = "") -> Ahead:
    """The text after ``begun``. The state of the grammar must stay: a second look finds the same."""
    constraint = Constraint(rules, model.vocabulary)
    try:
        constraint.ahead()
        for token in model.tokenize(begun, add_special=False) if begun else []:
            constraint.accept(token)
        found = constraint.ahead()
        assert constraint.ahead() == found
        return found
    finally:
        constraint.free()


pytestmark = pytest.mark.models


@pytest.mark.parametrize(
    ("rules", "certain"),
    [
        ('root ::= "abc" [0-9]', "abc"),
        ('root ::= "one" | "only"', "on"),
        ('root ::= "one" | "two"', ""),
        ('root ::= "one" "two"?', "one"),
        ('root ::= "all"', "all"),
        ("root ::= [a]+", ""),
        ("root ::= [^a]+", ""),
        ('root ::= "caf" ("e" | "é")', "caf"),
        ('root ::= "x" [é-ñ]', "x"),
        ('root ::= "x" [\\u00E9-\\u00F1]', "x"),
        ('root ::= "tab" ("\\t" | "b")', "tab"),
        ('root ::= "x" ("中" | "文")', "x"),
    ],
)
def test_the_text_ends_where_the_grammar_leaves_a_choice(model: MappedModel, rules: str, certain: str) -> None:
    found = ahead(model, rules)
    # "[a]+" and "all" leave one character, and may end: only the latter has one continuation before.
    assert found.certain == certain if rules != "root ::= [a]+" else found.certain == "a"
    assert found.likely.startswith(found.certain)


def test_keys_and_punctuation_are_forced_but_for_the_space_between(model: MappedModel) -> None:
    schema = {
        "type": "object",
        "properties": {"kind": {"enum": ["bird", "beetle"]}, "legs": {"type": "integer"}},
        "required": ["kind", "legs"],
        "additionalProperties": False,
    }
    made = grammar(ChatRequest(prompt="x", json_schema=json.dumps(schema)), CallForm())
    assert made is not None
    rules = made.rules
    assert isinstance(rules, str)
    assert ahead(model, rules) == Ahead('{"kind":', '{"kind": "b')
    assert ahead(model, rules, '{"kind": "bi') == Ahead('rd",', 'rd", "legs":')
    assert ahead(model, rules, '{"kind":"bi') == Ahead('rd",', 'rd","legs":')


def test_a_long_text_comes_in_pieces(model: MappedModel) -> None:
    assert ahead(model, f'root ::= "{"ab" * 100}"').certain == "ab" * (LONGEST // 2)


def test_a_large_grammar_is_not_looked_at(model: MappedModel) -> None:
    assert ahead(model, f'root ::= "{"a" * LARGEST}"') == Ahead("", "")


@examples(30)
@given(some.lists(some.text("abé中\t ", min_size=1, max_size=5), min_size=1, max_size=4, unique=True))
def test_no_alternative_is_forced_away(model: MappedModel, words: list[str]) -> None:
    """Each word is possible, so the certain text is a beginning of all; it may end early, in front of other scripts."""
    rules = "root ::= " + " | ".join(json.dumps(one, ensure_ascii=False).replace("\t", "\\t") for one in words)
    certain = ahead(model, rules).certain
    assert all(one.startswith(certain) for one in words)
