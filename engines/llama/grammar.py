"""The grammar of an answer: JSON, an instance of a schema, calls of tools, or text that may begin calls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from edgeserve.dataclass import dataclass
from edgeserve.engines.grammar import gbnf, limits
from edgeserve.engines.grammar.free import text_unless_object, text_until
from edgeserve.engines.grammar.gbnf import Gbnf
from edgeserve.engines.grammar.kept import keeping
from edgeserve.engines.grammar.rules import Rules, Unsayable, either, literal, one_of_texts
from edgeserve.engines.llama.tools import CallForm
from edgeserve.engines.thinking import CLOSE, OPEN
from edgeserve.errors import InvalidRequest
from edgeserve.messages import ChatRequest, Tool, ToolChoice

MAX_CALLS = 8
"""Calls in one answer at most."""
NAME = literal('"name"')
KEPT = 100_000
"""Characters of a grammar that is kept for the next requests, with its schemas. Larger ones would stay: 32 times 8 MB
of schemas, and 2 MB of a grammar."""


Written = str | Gbnf
"""A grammar that we wrote, for llama.cpp; or one that a client wrote, which llama.cpp never sees."""


@dataclass(frozen=True, slots=True)
class Grammar:
    """The grammar of an answer. ``loosened``: keywords of schemas that it leaves out, each with its place."""

    rules: Written
    loosened: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Shape:
    """The form of an answer: a JSON schema, a regular expression or one of several texts. At most one is given."""

    schema: str | None = None
    strict: bool = False
    pattern: str | None = None
    choices: tuple[str, ...] = ()

    @classmethod
    def of(cls, request: ChatRequest) -> Shape:
        schema = '{"type":"object"}' if request.json_object else request.json_schema
        return cls(schema, request.strict, request.pattern, request.choices)

    @property
    def free(self) -> bool:
        return self.schema is None and self.pattern is None and not self.choices

    def __len__(self) -> int:
        """Characters of it."""
        return len(self.schema or "") + len(self.pattern or "") + sum(map(len, self.choices))


FREE = Shape()


def grammar(request: ChatRequest, form: CallForm, *, thinks: bool = False) -> Grammar | None:
    """The grammar, or None for free text. Raises InvalidRequest for one that cannot be made or used.

    ``thinks``: the prompt ends in the tag that opens a model's thoughts.
    """
    shape, choice = Shape.of(request), request.tool_choice
    if request.grammar is not None and not choice.required:
        return Grammar(gbnf.parsed(request.grammar))
    tools = tuple(Tool(one.name, parameters=one.parameters, strict=one.strict) for one in request.tools)
    if tools and (choice.required or not shape.free):
        return _grammar(FREE if choice.required else shape, tools, choice, form)
    if tools:
        return _optional(tools, choice.parallel, form, thinks)
    return None if shape.free else _grammar(shape, (), choice, form)


def _characters(made: Grammar | None, tools: Sequence[Tool]) -> int:
    """Characters of a grammar and of the tools that it is made from."""
    rules = made.rules if made is not None and isinstance(made.rules, str) else ""
    return len(rules) + sum(len(one.parameters) for one in tools)


@keeping(count=16, most=KEPT, size=lambda made, shape, tools, *_: len(shape) + _characters(made, tools))
def _grammar(shape: Shape, tools: Sequence[Tool], choice: ToolChoice, form: CallForm) -> Grammar:
    field = "tools" if shape.free else "response_format"
    rules, loosened = Rules(), list[str]()
    try:
        text = _checked(rules, either(*_answers(rules, shape, tools, choice, form, loosened)))
    except Unsayable as error:
        raise InvalidRequest(f"{field}: the {_noun(shape)} {error}", param=field) from None
    return Grammar(text, tuple(loosened))


def _noun(shape: Shape) -> str:
    """The noun by which errors call the form."""
    return "pattern" if shape.pattern is not None else "list of choices" if shape.choices else "schema"


def _answers(
    rules: Rules, shape: Shape, tools: Sequence[Tool], choice: ToolChoice, form: CallForm, loosened: list[str]
) -> Iterator[str]:
    """Alternatives of an answer: an instance of the shape, and calls. Raises Unsayable, InvalidRequest."""
    if shape.schema is not None:
        yield _instance(rules, shape.schema, "response_format", loosened, strict=shape.strict)
    elif shape.pattern is not None:
        from edgeserve.engines.grammar import pattern  # as the schemas below: most servers never need them

        yield rules.add(pattern.convert(shape.pattern, rules.budget).text)
    elif shape.choices:
        yield one_of_texts(rules, shape.choices)
    calls = [
        _call(rules, tool, index, form, loosened)
        for index, tool in enumerate(tools)
        if choice.name in (None, tool.name)
    ]
    if calls:
        call = rules.add(f"{literal(form.opening)} {either(*calls)} {literal(form.closing)}")
        several = choice.parallel and choice.name is None
        yield rules.add(f'{call} ( "\\n" {call} ){{0,{MAX_CALLS - 1}}}') if several else call


def _checked(rules: Rules, root: str) -> str:
    """The text of the whole grammar. Raises Unsayable for a grammar beyond the limits of llama.cpp."""
    text = rules.text(root)
    limits.check(text)
    return text


def _instance(rules: Rules, schema: str, field: str, loosened: list[str], *, strict: bool) -> str:
    """The expression of an instance. Adds the keywords that it leaves out to ``loosened``. Raises InvalidRequest."""
    from edgeserve.engines.grammar.schema import SchemaGrammar

    made = SchemaGrammar(rules, json.loads(schema), field, strict=strict)
    text = made.convert()
    loosened += (f"{field}: {keyword}" for keyword in made.loosened)
    return text


def _call(rules: Rules, tool: Tool, index: int, form: CallForm, loosened: list[str]) -> str:
    field = f"tools[{index}].function.parameters"
    arguments = rules.add(_instance(rules, tool.parameters, field, loosened, strict=tool.strict))
    head = f'{{"name": {json.dumps(tool.name)}, "{form.key}": '
    return rules.add(f'{literal(head)} {arguments} "}}"')


@keeping(count=16, most=KEPT, size=lambda made, tools, *_: _characters(made, tools))
def _optional(tools: Sequence[Tool], several: bool, form: CallForm, thinks: bool) -> Grammar | None:
    """Free text that may end in calls; None when the grammar would be too large.

    - A call begins with the form's opening. In a form without one, it begins with an object whose first key is "name",
      at the start of the answer. No call begins in thoughts.
    - Once a call has begun, the grammar holds the model to it. Only further calls may follow.
    - The model chooses the white space.
    """
    rules, loosened = Rules(), list[str]()
    blank = rules.add(r"[ \t\n\r]{0,8}")
    opening, closing = literal(form.opening.strip()), literal(form.closing.strip())
    try:
        named = rules.add(
            either(*(_named(rules, tool, index, form, blank, loosened) for index, tool in enumerate(tools)))
        )
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
        return Grammar(_checked(rules, thoughts if thinks else text), tuple(loosened))
    except Unsayable:
        return None


def _named(rules: Rules, tool: Tool, index: int, form: CallForm, blank: str, loosened: list[str]) -> str:
    """Rules from a tool's name to its arguments: by their schema, or any object when no grammar expresses it.

    Raises InvalidRequest for a strict schema that no grammar expresses.
    """
    field = f"tools[{index}].function.parameters"
    try:
        _instance(Rules(rules.budget), tool.parameters, field, [], strict=tool.strict)  # a failure leaves no rules
        arguments = _instance(rules, tool.parameters, field, loosened, strict=tool.strict)
    except InvalidRequest:
        if tool.strict:
            raise
        arguments = "object"
    key = literal(json.dumps(form.key))
    return rules.add(f'{literal(json.dumps(tool.name))} {blank} "," {blank} {key} {blank} ":" {blank} {arguments}')
