"""The meaning of JSON schema keywords in combination (draft 2020-12, and older spellings still in use)."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any

from edgeserve.engines.grammar.rules import Unsayable
from edgeserve.engines.grammar.schema_keywords import check, told

Schema = Mapping[str, Any]
Spend = Callable[[int], None]
"""Counts steps of work; raises Unsayable beyond a budget (``rules.Rules.spend``)."""

TYPES = ("object", "array", "string", "number", "integer", "boolean", "null")
KINDS = {dict: "object", list: "array", str: "string", int: "number", float: "number", type(None): "null"}
OWN = {
    "object": ("properties", "required", "additionalProperties", "minProperties", "maxProperties", "propertyNames"),
    "array": ("items", "prefixItems", "additionalItems", "minItems", "maxItems", "uniqueItems"),
    "string": ("pattern", "format", "minLength", "maxLength"),
    "number": ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
}
"""Keywords that apply to one type only."""

JOINING = ("$ref", "allOf", "anyOf", "oneOf", "type", "enum", "const")
REFUSED = (
    *("not", "if", "then", "else", "patternProperties", "dependentSchemas", "dependentRequired"),
    *("dependencies", "contains", "unevaluatedItems", "unevaluatedProperties", "$dynamicRef", "$recursiveRef"),
    "$anchor",
)
"""Keywords that a grammar cannot express, and references by other names than a path."""

ASSERTING = frozenset([*JOINING, *(key for keys in OWN.values() for key in keys)])
HIGHEST = ("minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties")
LOWEST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties")


def assertions(schema: Schema) -> dict[str, Any]:
    """Only the keywords that restrict instances, each of the kind it must be. Annotations and unknown keywords do not
    count.

    Raises Unsayable.
    """
    for key in REFUSED:
        unevaluated = key.startswith("unevaluated") and schema.get(key) in (True, False)  # only known ones are said
        if key in schema and schema[key] != {} and not unevaluated:
            raise Unsayable(f"uses {key}, which is not supported", key, schema[key])
    asserted = {key: value for key, value in schema.items() if key in ASSERTING}
    for key, value in asserted.items():
        check(key, value)
    return asserted


def types(schema: Schema) -> list[str]:
    """The types that a schema allows. Without ``type``: the first type whose keywords it uses. Empty: any. Raises
    Unsayable."""
    given = schema.get("type")
    if given is None:
        return next(([kind] for kind, keys in OWN.items() if any(key in schema for key in keys)), [])
    kinds = [given] if isinstance(given, str) else given
    if not isinstance(kinds, list) or not kinds or not all(kind in TYPES for kind in kinds):
        raise Unsayable(f"has the type {told(given)}; known are {', '.join(TYPES)}")
    return [kind for kind in dict.fromkeys(kinds) if kind != "integer" or "number" not in kinds]


def values(schema: Schema) -> list[Any] | None:
    """The instances that ``const`` or ``enum`` allow, filtered by ``type``. Raises Unsayable."""
    if "const" not in schema and "enum" not in schema:
        return None
    listed = schema.get("enum", [schema.get("const")])
    if not listed:
        raise Unsayable("has an enum that is not a list of at least one value")
    others = [key for key in schema if key not in ("const", "enum", "type")]
    if others:
        text = f"joins enum or const with {others[0]}; list only the values that hold"
        raise Unsayable(text, others[0], schema[others[0]])
    kinds = types(schema)
    left = [one for one in listed if not kinds or any(is_a(one, kind) for kind in kinds)]
    left = [one for one in left if "const" not in schema or same(one, schema["const"])]
    if not left:
        raise Unsayable("has an enum or const that its type does not allow")
    return left


def is_a(value: Any, kind: str) -> bool:
    if isinstance(value, bool):
        return kind == "boolean"
    if kind == "integer":
        return isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return KINDS[type(value)] == kind


def same(one: Any, other: Any) -> bool:
    """Equality of JSON: 1 equals 1.0, and 1 differs from true."""
    return one is other or essence(one) == essence(other)


def essence(value: Any) -> Hashable:
    """A key that is equal exactly for values that are equal as JSON."""
    if isinstance(value, list):
        return ("list", *map(essence, value))
    if isinstance(value, dict):
        return ("object", frozenset((name, essence(part)) for name, part in value.items()))
    return (isinstance(value, bool), value)


def width(schema: Schema) -> int:
    """Steps to look at one part: its keywords, and the values that they list."""
    return len(schema) + sum(len(value) for value in schema.values() if isinstance(value, list | dict))


def size(value: Any) -> int:
    """Number of values in a value, itself included."""
    count, nodes = 0, [value]
    while nodes:
        node = nodes.pop()
        count += 1
        if isinstance(node, dict | list):
            nodes += node.values() if isinstance(node, dict) else node
    return count


def merge(schemas: Iterable[Schema], spend: Spend) -> dict[str, Any]:
    """One schema that holds where all of them hold. Raises Unsayable where no schema can say that."""
    parts = list(schemas)
    merged: dict[str, Any] = {}
    for part in parts:
        for key, value in part.items():
            merged[key] = _both(key, merged[key], value, spend) if key in merged else value
    names = merged.get("properties", {}).keys()
    for part in parts:
        closed = part.get("additionalProperties", True) is not True
        spend(len(names) * closed)
        if closed and names - part.get("properties", {}).keys():
            raise Unsayable("is joined with additionalProperties that would meet the other's properties")
    return merged


def _both(key: str, one: Any, other: Any, spend: Spend) -> Any:
    if one is other:
        return one
    spend(size(one) + size(other))
    numeric = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (one, other))
    if same(one, other):
        return one
    if key in HIGHEST and numeric:
        return max(one, other)
    if key in LOWEST and numeric:
        return min(one, other)
    if key == "required":
        return list(dict.fromkeys((*one, *other)))
    if key == "type":
        return _common_types(types({"type": one}), types({"type": other}))
    if key == "additionalProperties" and True in (one, other):
        return other if one is True else one
    if key == "properties":
        shared = {name: _joined(one[name], other[name]) for name in one if name in other}
        return {**one, **other, **shared}
    raise Unsayable(f"has two meanings of {key} that hold together; write them as one")


def _joined(one: Any, other: Any) -> Schema:
    """A schema that requires both. It extends an allOf list instead of nesting lists, where many schemas are merged."""
    before = (
        one["allOf"] if isinstance(one, dict) and list(one) == ["allOf"] and isinstance(one["allOf"], list) else [one]
    )
    return {"allOf": [*before, other]}


def _common_types(one: list[str], other: list[str]) -> list[str]:
    both = [kind for kind in one if kind in other or (kind == "integer" and "number" in other)]
    both += [kind for kind in other if kind == "integer" and "number" in one]
    if not both:
        raise Unsayable("allows no type")
    return both
