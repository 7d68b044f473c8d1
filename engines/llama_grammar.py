"""The grammar that an answer is held to: JSON, a schema's instance, calls of tools."""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence

from edgeserve.messages import ChatRequest, Tool, ToolChoice
from engines.gbnf import Rules, either, literal
from engines.json_schema import SchemaGrammar
from engines.llama_tools import CallForm

MAX_CALLS = 8
"""In one answer that must be calls."""


def grammar(request: ChatRequest, form: CallForm) -> str | None:
    """GBNF, or None for free text. Raises InvalidRequest for a schema that cannot be held to."""
    schema = '{"type":"object"}' if request.json_object else request.json_schema
    choice = request.tool_choice
    if request.tools and (choice.required or schema is not None):
        return _grammar(None if choice.required else schema, request.tools, choice, form)
    return None if schema is None else _grammar(schema, (), choice, form)


@functools.lru_cache(maxsize=16)
def _grammar(schema: str | None, tools: Sequence[Tool], choice: ToolChoice, form: CallForm) -> str:
    rules = Rules()
    answers = []
    if schema is not None:
        answers.append(SchemaGrammar(rules, json.loads(schema), "response_format").convert())
    calls = [_call(rules, tool, index, form) for index, tool in enumerate(tools) if choice.name in (None, tool.name)]
    if calls:
        call = rules.add(f"{literal(form.opening)} {either(*calls)} {literal(form.closing)}")
        several = choice.parallel and choice.name is None
        answers.append(rules.add(f'{call} ( "\\n" {call} ){{0,{MAX_CALLS - 1}}}') if several else call)
    return rules.text(either(*answers))


def _call(rules: Rules, tool: Tool, index: int, form: CallForm) -> str:
    field = f"tools[{index}].function.parameters"
    arguments = rules.add(SchemaGrammar(rules, json.loads(tool.parameters), field).convert())
    head = f'{{"name": {json.dumps(tool.name)}, "{form.key}": '
    return rules.add(f'{literal(head)} {arguments} "}}"')
