"""Keywords of a JSON schema: the kind of value that each must have, and how they are read and shown."""

from __future__ import annotations

import json
import math
from typing import Any

from edgeserve.engines.grammar.rules import Unsayable

LISTS = frozenset(("allOf", "anyOf", "oneOf", "enum", "prefixItems", "required"))
COUNTS = frozenset(("minProperties", "maxProperties", "minItems", "maxItems", "minLength", "maxLength"))
NUMBERS = frozenset(("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"))
TEXTS = frozenset(("$ref", "pattern", "format"))
PARTS = frozenset(("items", "additionalItems", "additionalProperties", "propertyNames"))

MAX_DEPTH = 200
"""Levels of objects and lists in one schema. The routes accept fewer."""
LONGEST_TOLD = 80


def check(key: str, value: Any) -> None:
    """Raise Unsayable if the value of a keyword is not of the kind that the specification names."""
    if key in LISTS and not isinstance(value, list):
        raise Unsayable(f"has {key} that is no list")
    if key == "required" and not all(isinstance(name, str) for name in value):
        raise Unsayable("has required that is no list of names")
    if key in COUNTS and not (_number(value) and value >= 0 and value == int(value)):
        raise Unsayable(f"has {key} {told(value)}; it must be a whole number from 0")
    if key in NUMBERS and not _number(value):
        raise Unsayable(f"has {key} {told(value)}; it must be a number")
    if key in TEXTS and not isinstance(value, str):
        raise Unsayable(f"has {key} {told(value)}; it must be a string")
    if key in PARTS and not (isinstance(value, dict | bool) or (key == "items" and isinstance(value, list))):
        raise Unsayable(f"has {key} {told(value)}; it must be a schema")
    if key == "properties" and not isinstance(value, dict):
        raise Unsayable("has properties that are no object")
    if key == "uniqueItems" and not isinstance(value, bool):
        raise Unsayable(f"has uniqueItems {told(value)}; it must be true or false")


def check_values(schema: Any) -> int:
    """Bytes of a schema's text. Raises Unsayable for infinite numbers and halves of surrogate pairs."""
    level, nodes = 0, [schema]
    while nodes:
        level += 1
        if level > MAX_DEPTH:
            raise Unsayable(f"is nested more than {MAX_DEPTH} levels deep")
        nodes = [
            child
            for node in nodes
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
    try:
        return len(json.dumps(schema, ensure_ascii=False, allow_nan=False).encode())
    except UnicodeEncodeError:
        raise Unsayable("holds half of a character, a surrogate alone") from None
    except ValueError:
        raise Unsayable("holds a number too large for JSON readers") from None


def told(value: Any) -> str:
    """A value as messages show it."""
    text = as_json(value)
    return text if len(text) <= LONGEST_TOLD else f"{text[: LONGEST_TOLD - 1]}…"


def as_json(value: Any) -> str:
    """The value as a grammar holds it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def item(schema: dict[str, Any], key: str) -> tuple[str, Any]:
    """A keyword and its value."""
    return key, schema.get(key)


def bounds(schema: dict[str, Any], of: str) -> tuple[int, int | None]:
    """The keywords min… and max… of a count."""
    high = schema.get(f"max{of}")
    return int(schema.get(f"min{of}", 0)), None if high is None else int(high)


def _number(value: Any) -> bool:
    if isinstance(value, float):
        return math.isfinite(value)
    return isinstance(value, int) and not isinstance(value, bool)
