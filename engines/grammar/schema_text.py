"""Strings of a JSON schema as GBNF: lengths, patterns and formats."""

from __future__ import annotations

from typing import Any

from edgeserve.engines.grammar.pattern import Piece, convert
from edgeserve.engines.grammar.rules import Rules, Unsayable
from edgeserve.engines.grammar.schema_formats import FORMATS, known
from edgeserve.engines.grammar.schema_keywords import bounds, item, told


def expression(rules: Rules, schema: dict[str, Any]) -> str:
    """The expression of a string with the keywords of ``schema_parts.OWN``. Raises Unsayable."""
    low, high = bounds(schema, "Length")
    pattern, form = schema.get("pattern"), FORMATS.get(schema.get("format", ""))
    if pattern is None and form is None:
        return rf'"\"" {rules.repeat("char", low, high)} "\""'
    piece = _piece(rules, pattern, form)
    if piece.low < low:
        text = "has a pattern or format that does not keep to minLength; put it into the pattern"
        raise Unsayable(text, *item(schema, "minLength"))
    if high is not None and (piece.high is None or piece.high > high):
        text = "has a pattern or format that does not keep to maxLength; put it into the pattern"
        raise Unsayable(text, *item(schema, "maxLength"))
    rules.count(len(piece.text) // 8)
    return rf'"\"" {rules.add(piece.text)} "\""'


def _piece(rules: Rules, pattern: str | None, form: str | None) -> Piece:
    """The expression of a text by its pattern. A format beside a pattern is an annotation.

    Generators of schemas write a few patterns that no grammar expresses; a known expression stands for those.
    """
    wanted = form if pattern is None else known(pattern)
    try:
        return convert(str(wanted), rules.budget)
    except Unsayable as error:
        raise Unsayable(f"has the pattern {told(pattern)}, which {error}", "pattern", pattern) from None
