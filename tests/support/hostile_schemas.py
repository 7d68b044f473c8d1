"""Schemas that try to hurt: wrong kinds of values, depths, doublings; and a strategy that makes more of them."""

from __future__ import annotations

import copy
from typing import Any

from hypothesis import strategies as st
from support.schemas import SHAPES, thing

from edgeserve.engines.grammar.schema_parts import JOINING, OWN, REFUSED

Schema = dict[str, Any]
SELF: Schema = {"$ref": "#"}


def chain(count: int, key: str = "$ref") -> Schema:
    """References, or unions, of which each leads to the next."""
    parts = {f"a{index}": _link(key, f"#/$defs/a{index + 1}") for index in range(count)}
    return {"$ref": "#/$defs/a0", "$defs": {**parts, f"a{count}": {"const": 1}}}


def _link(key: str, ref: str) -> Schema:
    return {"$ref": ref} if key == "$ref" else {key: [{"$ref": ref}, {"$ref": ref, "title": "again"}]}


def doubled(count: int) -> Schema:
    """Each part may begin with the next in two ways."""

    def part(index: int) -> Schema:
        following = {"$ref": f"#/$defs/a{index + 1}"}
        return {"anyOf": [{"anyOf": [following]}, following, {"const": index}]}

    parts = {f"a{index}": part(index) for index in range(count)}
    return {"$ref": "#/$defs/a0", "$defs": {**parts, f"a{count}": {"const": 1}}}


def lists(most: int, items: Any) -> Schema:
    return {"type": "array", "maxItems": most, "items": items}


def alike(count: int) -> Schema:
    """Lists in lists, each of two kinds that begin alike."""
    parts = {
        f"a{index}": {"anyOf": [lists(most, {"$ref": f"#/$defs/a{index + 1}"}) for most in (5, 6)]}
        for index in range(count)
    }
    return {"$ref": "#/$defs/a0", "$defs": {**parts, f"a{count}": {"const": 1}}}


def nesting(count: int) -> Schema:
    """Kinds of lists. Each holds lists of its kind or of the next: each bracket of an answer doubles the ways."""
    parts: Schema = {f"a{count}": {"type": "array", "items": {"type": "number"}}}
    for index in range(count):
        kinds = [{"$ref": f"#/items/$defs/a{one}"} for one in (index, index + 1)]
        parts[f"a{index}"] = {"type": "array", "items": {"anyOf": kinds}}
    return {"$ref": "#/items/$defs/a0", "$defs": parts}


def far(index: int) -> Schema:
    """Numbers of one to fifteen digits and of up to four behind the point."""
    return {"type": "number", "minimum": -(10**14) + index + 0.1234, "maximum": 10**14 - index - 0.4321}


def spread(depth: int) -> str:
    return "(" * depth + "a?" + "){0,2}" * depth


def dashes() -> Schema:
    """A text whose tokens can be read in 32,768 ways."""
    return {"type": "string", "pattern": "^" + "-?" * 16 + "$"}


def told_late(count: int) -> Schema:
    """Objects that begin with such a text. Only the member behind it tells them apart."""
    parts = [{"a": dashes(), "b": {"const": index}} for index in range(count)]
    shared = {"type": "object", "required": ["a", "b"], "additionalProperties": False}
    return {"anyOf": [{"properties": part, **shared} for part in parts]}


def named(count: int) -> Schema:
    """Objects whose keys are such texts."""
    shared = {"type": "object", "propertyNames": dashes(), "additionalProperties": {"type": "integer"}}
    return {"anyOf": [{"maxProperties": index + 1, **shared} for index in range(count)]}


REFUSED_HOSTILE: dict[str, Any] = {
    "texts that many objects begin with": told_late(50),
    "names that many objects have": named(100),
    "reference that is an object": {"$ref": {}},
    "reference that is a list": {"anyOf": [{"$ref": [1]}]},
    "numbers with far bounds that begin alike": {"anyOf": [far(index) for index in range(10)]},
    "a pattern of a megabyte": {"type": "string", "pattern": "a" * 1_000_000},
    "a long pattern of an item that never comes": {
        "type": "array",
        "prefixItems": [{"type": "integer"}, {"type": "string", "pattern": "a" * 1_000_000}],
        "maxItems": 1,
    },
    "many long patterns": {
        "type": "object",
        "properties": {f"p{index}": {"type": "string", "pattern": f"[^{'a' * 3000}]{index}"} for index in range(300)},
    },
    "infinite length": {"type": "string", "minLength": 1e999},
    "infinite const": {"const": 1e999},
    "no list of names in oneOf": {"oneOf": [{"required": None}, {"required": ["a"], "type": "object"}]},
    "names that are lists": {"type": "object", "required": [["a"]]},
    "600 references": chain(600),
    "600 joined references": {"allOf": [chain(600)], **chain(600)},
    "references doubled in allOf": chain(60, "allOf"),
    "unions doubled": doubled(40),
    "brackets that double": {"anyOf": [lists(5, SELF), lists(6, SELF)]},
    "objects that double": {"anyOf": [thing(left=SELF, op={"const": sign}) for sign in "+-"]},
    "lists alike": alike(30),
    "lists that hold themselves or any list": {"type": "array", "items": {"anyOf": [SELF, {"type": "array"}]}},
    "lists that hold themselves or any value at the end": {
        "type": "array",
        "prefixItems": [{"anyOf": [SELF, {"type": "array", "prefixItems": [True]}]}],
    },
    "objects that hold themselves or any object": {
        "type": "object",
        "additionalProperties": {"anyOf": [SELF, thing(a=True)]},
    },
    "lists that hold themselves or the next kind": {"items": nesting(20), "type": "array"},
    "2,000 nested groups": {"type": "string", "pattern": "(" * 2000 + "a" + ")" * 2000},
    "a repeat of 5,000 digits": {"type": "string", "pattern": "a{" + "9" * 5000 + "}"},
    "lengths that multiply": {"type": "string", "pattern": "|".join(f"{spread(9)}{end}" for end in range(100))},
    "patterns alike": {"anyOf": [{"type": "string", "pattern": f"^(a{{1,2}}){{1,100}}{end}$"} for end in range(200)]},
    "300 characters that may be missing": {"type": "string", "pattern": "^(.?.?.?){1,100}$"},
    "400 characters that may be missing": {"type": "string", "pattern": ".?" * 400},
    "lengths in lengths": {"type": "string", "pattern": "^(.{1,22}){1,22}$"},
    "half a character": {"const": "\ud800"},
    "half a character as a name": {"type": "object", "properties": {"\udfff": True}},
    "half a character in a pattern": {"type": "string", "pattern": r"\ud800"},
    "no number": {"type": "number", "minimum": float("nan")},
    "a count of 400 digits": {"type": "array", "minItems": 10**400},
    "a type in a list in a list": {"type": [["string"]]},
    "many meanings": {"allOf": [{"properties": {"x": {"maximum": most}}} for most in range(1500)]},
    "700 branches": {"oneOf": [thing(**{f"p{index}": {"enum": [index]}}) for index in range(700)]},
    "a long enum beside many branches": {
        "type": ["object", "null", "number"],
        "enum": [0] * 28_000,
        "anyOf": [{}] * 20,
    },
    "a long enum apart from many branches": {
        "oneOf": [{"enum": [0] * 26_000}, *(thing(k={"const": index}) for index in range(20))]
    },
    "nested 300 levels": {"const": None},
    "a format that is a list": {"type": "string", "format": []},
    "items that are a number": {"type": "array", "items": 3},
}
deep: Any = {"type": "array"}
for _ in range(300):
    deep = {"type": "array", "items": deep}
REFUSED_HOSTILE["nested 300 levels"] = deep

TAKEN_HOSTILE: dict[str, Any] = {
    "texts that a few objects begin with": told_late(3),
    "names that a few objects have": named(3),
    "three numbers with far bounds": {"anyOf": [far(index) for index in range(3)]},
    "many ranges of whole numbers": {"anyOf": [{"type": "integer", "minimum": 9 * index} for index in range(20)]},
    "a long name": {"type": "object", "properties": {"a" * 5000: True}, "additionalProperties": True},
    "names that begin with each other": {
        "properties": {"a" * size: True for size in range(1, 200)},
        "additionalProperties": {},
    },
    "6,000 values": {"enum": [f"v{index}" for index in range(6000)]},
    "disjoint values": {"oneOf": [{"enum": list(range(4000))}, {"enum": list(range(4000, 8000))}]},
    "90 references": chain(90),
    "told apart by const": {
        "anyOf": [thing(kind={"const": kind}, left=SELF, right=SELF) for kind in ("add", "multiply")]
    },
    "told apart by name": {
        "anyOf": [thing(left=SELF, op={"const": "+"}), thing(operand=SELF), thing(value={"type": "number"})]
    },
    "any JSON": {
        "anyOf": [
            {"type": "string"},
            {"type": "array", "items": SELF},
            {"type": "object", "additionalProperties": SELF},
        ]
    },
    "lists that hold themselves or flat ones": {
        "type": "array",
        "items": {"anyOf": [SELF, lists(9, lists(9, {"type": "number"}))]},
    },
    "2,000 items": lists(2000, thing(a={"type": "string"})),
    "2,000 lists of lists": lists(2000, lists(2000, {"type": "string"})),
    "2,000 further names": {
        **thing("a", a={"type": "null"}, b=True),
        "additionalProperties": {},
        "maxProperties": 2000,
    },
    "2,000 characters": {"type": "string", "maxLength": 2000},
    "300 optional names": {"type": "object", "properties": {f"p{index}": True for index in range(300)}},
    "bounds of 15 digits": {"type": "number", "minimum": -999_999_999_999_999, "maximum": 0.123456789012345},
}

KEYWORDS = [*JOINING, *REFUSED, *(key for keys in OWN.values() for key in keys), "$id", "$defs"]
NUMBERS = [0, -1, 1.5, 1e999, float("nan"), 10**400, 1e300]
TEXTS = ["", "a", "#", "#/$defs/a", "\ud800", "(" * 300, "date", "object", "^a*$", r"\u0000", "a{3,2}"]
OTHERS = [None, True, False, [], {}, [[]], [{}], [None], {"": None}, ["a", 1], ["string", "null"]]
ODD = st.sampled_from([*NUMBERS, *TEXTS, *OTHERS])
values = st.recursive(
    ODD | st.text(max_size=5) | st.floats() | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(KEYWORDS) | st.text(max_size=2), inner, max_size=4)
    ),
    max_leaves=8,
)


@st.composite
def schemas(draw: st.DrawFn) -> Any:
    """A schema that was right before some of its parts were replaced, or one of keywords with any values."""
    if draw(st.booleans()):
        return draw(st.dictionaries(st.sampled_from(KEYWORDS), values, max_size=5))
    schema = copy.deepcopy(draw(st.sampled_from([*SHAPES.values()])))
    for _ in range(draw(st.integers(1, 3))):
        node: Any = schema
        while isinstance(node, dict | list) and node:
            key = draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
            if not isinstance(node[key], dict | list) or draw(st.integers(0, 3)) == 0:
                place = draw(st.sampled_from(KEYWORDS)) if isinstance(node, dict) and draw(st.booleans()) else key
                node[place] = copy.deepcopy(draw(values))  # a later round may replace a part of it
                break
            node = node[key]
    return schema
