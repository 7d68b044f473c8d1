"""Whether two branches of a ``oneOf`` can hold together, as far as their schemas show."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgeserve.engines.grammar.schema_parts import TYPES, Schema, Spend, essence, is_a, size, types, values, width

MAX_DEPTH = 4


def apart(one: Schema, other: Schema, plain: Callable[[Any], Schema], spend: Spend, depth: int = 0) -> bool:
    """True when no instance that the grammar of ``one`` makes is valid for ``other``. ``plain`` follows references.

    Two branches are apart if one of these holds:

    - their types differ
    - their values differ
    - both require a property whose schemas are apart
    - each requires a property that the other never allows

    Raises Unsayable.
    """
    spend(width(one) + width(other))
    listed = values(one), values(other)
    if listed[0] is not None and listed[1] is not None:
        spend(size(listed[0]) + size(listed[1]))
        return {*map(essence, listed[0])}.isdisjoint(map(essence, listed[1]))
    kinds = _kinds(one, listed[0]), _kinds(other, listed[1])
    if kinds[0] and kinds[1] and not any(_overlap(left, right) for left in kinds[0] for right in kinds[1]):
        return True
    if kinds != (["object"], ["object"]) or depth == MAX_DEPTH:
        return False
    spend(size(one) + size(other))
    needs = set(one.get("required", [])), set(other.get("required", []))
    properties = one.get("properties", {}), other.get("properties", {})
    for name in needs[0] & needs[1] & properties[0].keys() & properties[1].keys():
        if apart(plain(properties[0][name]), plain(properties[1][name]), plain, spend, depth + 1):
            return True
    closed = all(part.get("properties") and not part.get("additionalProperties") for part in (one, other))
    return closed and bool(needs[0] - _said(other)) and bool(needs[1] - _said(one))


def _said(schema: Schema) -> set[str]:
    return {*schema.get("properties", {}), *schema.get("required", [])}


def _kinds(schema: Schema, listed: list[Any] | None) -> list[str]:
    """Types of a schema; empty when the schema does not restrict them."""
    if listed is None:
        return types(schema) if "type" in schema else []
    return [kind for kind in TYPES if kind != "integer" and any(is_a(one, kind) for one in listed)]


def _overlap(one: str, other: str) -> bool:
    return one == other or {one, other} == {"integer", "number"}
