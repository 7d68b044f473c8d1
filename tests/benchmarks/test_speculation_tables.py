"""The judgement of guessed tokens, and the tasks that they are judged by."""

from __future__ import annotations

import json

import pytest
from benchmarks.speculation_tables import Pairs, comparison
from benchmarks.speculation_tasks import SCHEMAS, TASKS

from edgeserve.engines.grammar.rules import Rules
from edgeserve.engines.grammar.schema import SchemaGrammar


def pairs_of(kind: str, *ratios: float) -> Pairs:
    pairs = Pairs("model")
    for ratio in ratios:
        pairs.add(kind, 10 * ratio, 10.0)
    return pairs


def test_the_median_of_the_pairs_meets_the_target() -> None:
    assert [row.met for row in pairs_of("rewriting", 1.0, 1.6, 1.7).rows()] == [True]
    assert [row.met for row in pairs_of("rewriting", 1.0, 1.4, 9.0).rows()] == [False]
    assert [row.met for row in pairs_of("free text", 0.98).rows()] == [True]
    assert [row.met for row in pairs_of("another", 0.1).rows()] == [None]


def test_the_table_has_a_row_for_each_kind() -> None:
    assert comparison([pairs_of("rewriting", 1.6)]).splitlines()[-1].split(" | ")[3:] == [
        "1.60",
        "1.60 to 1.60",
        "≥ 1.5",
        "yes |",
    ]


@pytest.mark.parametrize("kind", [kind for kind in TASKS if kind != "free text"])
def test_answers_repeat_their_prompts_but_not_word_for_word(kind: str) -> None:
    for task in TASKS[kind]:
        assert task.answer not in task.prompt
        known = sum(word in task.prompt for word in task.answer.split())
        assert known > 0.8 * len(task.answer.split())


@pytest.mark.parametrize("name", SCHEMAS)
def test_each_schema_has_a_grammar(name: str) -> None:
    assert len(SCHEMAS) == 10
    assert SchemaGrammar(Rules(), json.loads(json.dumps(SCHEMAS[name])), "schema").convert()
