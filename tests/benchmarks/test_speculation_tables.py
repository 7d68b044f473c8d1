"""The tasks that guessed tokens are judged by, and their targets."""

from __future__ import annotations

import json

import pytest
from benchmarks.speculation_tables import TARGETS
from benchmarks.speculation_tasks import SCHEMAS, TASKS
from support.cases import each

from edgeserve.engines.grammar.rules import Rules
from edgeserve.engines.grammar.schema import SchemaGrammar


def test_every_kind_of_text_has_a_target() -> None:
    assert set(TASKS) < set(TARGETS)


@pytest.mark.parametrize("kind", [kind for kind in TASKS if kind != "free text"])
def test_answers_repeat_their_prompts_but_not_word_for_word(kind: str) -> None:
    for task in TASKS[kind]:
        assert task.answer not in task.prompt
        known = sum(word in task.prompt for word in task.answer.split())
        assert known > 0.8 * len(task.answer.split())


@each("name", SCHEMAS)
def test_each_schema_has_a_grammar(name: str) -> None:
    assert len(SCHEMAS) == 10
    assert SchemaGrammar(Rules(), json.loads(json.dumps(SCHEMAS[name])), "schema").convert()
