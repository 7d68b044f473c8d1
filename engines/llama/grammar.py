"""The grammar of an answer: JSON, an instance of a schema, calls of tools, or text that may begin calls."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Sequence

from edgeserve.errors import InvalidRequest
from edgeserve.messages import ChatRequest, Tool, ToolChoice
from engines.grammar import limits
from engines.grammar.free import text_unless_object, text_until
from engines.grammar.rules import Rules, Unsayable, either, literal
from engines.grammar.schema import SchemaGrammar
from engines.llama.tools import CallForm
from engines.thinking import CLOSE, OPEN

MAX_CALLS = 8
"""Calls in one answer at most."""
NAME = literal('"name"')
KEPT = 100_000
"""Characters of schemas whose grammar is kept for the next requests. Larger ones would stay with it: 32 times 16 MB."""


def grammar(request: ChatRequest, form: CallForm, *, thinks: bool = False) -> str | None:
    """GBNF, or None for free text. Raises InvalidRequest for a schema that no grammar can express.

    ``thinks``: the prompt ends in the tag that opens a model's thoughts.
    """
    schema = '{"type":"object"}' if request.json_object else request.json_schema
    choice = request.tool_choice
    tools = tuple(Tool(one.name, parameters=one.parameters) for one in request.tools)
    kept = len(schema or "") + sum(len(one.parameters) for one in tools) <= KEPT
    make = _grammar if kept else _grammar.__wrapped__
    if tools and (choice.required or schema is not None):
        return make(None if choice.required else schema, tools, choice, form)
    if tools:
        return (_optional if kept else _optional.__wrapped__)(tools, choice.parallel, form, thinks)
    return None if schema is None else make(schema, (), choice, form)


@functools.lru_cache(maxsize=16)
def _grammar(schema: str | None, tools: Sequence[Tool], choice: ToolChoice, form: CallForm) -> str:
    field = "tools" if schema is None else "response_format"
    rules = Rules()
    try:
        return _checked(rules, either(*_answers(rules, schema, tools, choice, form)))
    except Unsayable as error:
        raise InvalidRequest(f"{field}: the schema {error}", param=field) from None


def _answers(
    rules: Rules, schema: str | None, tools: Sequence[Tool], choice: ToolChoice, form: CallForm
) -> Iterator[str]:
    """Alternatives of an answer: an instance of the schema, and calls. Raises Unsayable, InvalidRequest."""
    if schema is not None:
        yield SchemaGrammar(rules, json.loads(schema), "response_format").convert()
    calls = [_call(rules, tool, index, form) for index, tool in enumerate(tools) if choice.name in (None, tool.name)]
    if calls:
        call = rules.add(f"{literal(form.opening)} {either(*calls)} {literal(form.closing)}")
        several = choice.parallel and choice.name is None
        yield rules.add(f'{call} ( "\\n" {call} ){{0,{MAX_CALLS - 1}}}') if several else call


def _checked(rules: Rules, root: str) -> str:
    """The text of the whole grammar. Raises Unsayable for a grammar beyond the limits of llama.cpp."""
    text = rules.text(root)
    limits.check(text)
    return text


def _call(rules: Rules, tool: Tool, index: int, form: CallForm) -> str:
    field = f"tools[{index}].function.parameters"
    arguments = rules.add(SchemaGrammar(rules, json.loads(tool.parameters), field).convert())
    head = f'{{"name": {json.dumps(tool.name)}, "{form.key}": '
    return rules.add(f'{literal(head)} {arguments} "}}"')


@functools.lru_cache(maxsize=16)
def _optional(tools: Sequence[Tool], several: bool, form: CallForm, thinks: bool) -> str | None:
    """Free text that may end in calls; None when the grammar would be too large.

    - A call begins with the form's opening. In a form without one, it begins with an object whose first key is "name",
      at the start of the answer. No call begins in thoughts.
    - Once a call has begun, the grammar holds the model to it. Only further calls may follow.
    - The model chooses the white space.
    """
    rules = Rules()
    blank = rules.add(r"[ \t\n\r]{0,8}")
    opening, closing = literal(form.opening.strip()), literal(form.closing.strip())
    try:
        named = rules.add(either(*(_named(rules, tool, form, blank) for tool in tools)))
        rest = rules.add(f'{blank} ":" {blank} {named} {blank} "}}" {blank} {closing}')
        begun = f'"{{" {blank} {NAME} {rest}'
        more = f"( {blank} {opening} {blank} {begun} ){{0,{MAX_CALLS - 1}}} {blank}" if several else blank
        text, thoughts = rules.reserve(), rules.reserve()
        rules.define(thoughts, text_until(rules, {CLOSE: text})[""])
        if form.opening:
            calls = rules.add(f"{blank} {begun} {more}")
            rules.define(text, text_until(rules, {form.opening.strip(): calls, OPEN: thoughts})[""])
        else:
            states = text_until(rules, {OPEN: thoughts})
            rules.define(text, text_unless_object(rules, states, "name", rules.add(f"{rest} {more}")))
        return _checked(rules, thoughts if thinks else text)
    except Unsayable:
        return None


def _named(rules: Rules, tool: Tool, form: CallForm, blank: str) -> str:
    """Rules from a tool's name to its arguments: by their schema, or any object when no grammar expresses it."""
    schema = json.loads(tool.parameters)
    try:
        SchemaGrammar(Rules(rules.budget), schema, "").convert()  # a trial: a failure leaves no rules behind
        arguments = SchemaGrammar(rules, schema, "").convert()
    except InvalidRequest:
        arguments = "object"
    key = literal(json.dumps(form.key))
    return rules.add(f'{literal(json.dumps(tool.name))} {blank} "," {blank} {key} {blank} ":" {blank} {arguments}')
