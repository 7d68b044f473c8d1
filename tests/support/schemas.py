"""Shapes of JSON schema: what must always be said validly, and what must be refused with its reason."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]


def thing(required: str = "", /, **properties: Any) -> Schema:
    """An object as OpenAI's strict mode has it: closed; all is required unless named otherwise."""
    names = required.split() if required else list(properties)
    return {"type": "object", "properties": properties, "required": names, "additionalProperties": False}


def text(low: int = 0, high: int = 12) -> Schema:
    return {"type": "string", "minLength": low, "maxLength": high}


def formats(*names: str) -> Schema:
    return thing(**{name: {"type": "string", "format": name} for name in names})


ZOD_EMAIL = r"^(?!\.)(?!.*\.\.)([A-Za-z0-9_'+\-\.]*)[A-Za-z0-9_+-]@([A-Za-z0-9][A-Za-z0-9\-]*\.)+[A-Za-z]{2,}$"
"""The pattern that Zod 4 writes beside the format email."""
WHOLE: Schema = {"type": "integer"}
NODE = thing(value=WHOLE, next={"anyOf": [{"$ref": "#/$defs/node"}, {"type": "null"}]})
TREE = thing(name=text(1, 6), children={"type": "array", "items": {"$ref": "#"}, "maxItems": 2})

SHAPES: dict[str, Schema] = {
    "flat object": thing(city=text(), population={"type": "integer", "minimum": 0, "maximum": 99_999_999}),
    "nested objects": thing(a=thing(b=thing(c={"type": "boolean"}))),
    "optional properties": thing("b", a=WHOLE, b=text(), c={"type": "null"}, d={"type": "boolean"}),
    "nothing required": {**thing(a=WHOLE, b=WHOLE, c=WHOLE), "required": []},
    "empty object": thing(),
    "any object": {"type": "object", "maxProperties": 2},
    "any value": {"type": ["integer", "boolean", "null"]},
    "array of bounded length": {"type": "array", "items": text(), "minItems": 2, "maxItems": 4},
    "array of arrays": {"type": "array", "items": {"type": "array", "items": WHOLE, "maxItems": 2}, "maxItems": 3},
    "empty array": {"type": "array", "items": WHOLE, "maxItems": 0},
    "tuple": {"type": "array", "prefixItems": [WHOLE, text(), {"type": "boolean"}], "items": False},
    "tuple with more": {"type": "array", "prefixItems": [text()], "items": WHOLE, "minItems": 3, "maxItems": 4},
    "enum": thing(colour={"type": "string", "enum": ["red", 'a "quoted" one', "back\\slash", "new\nline"]}),
    "mixed enum": {"enum": [1, 2.5, None, True, "x", [1], {"a": "b"}]},
    "const": thing(kind={"const": {"deep": ["ü", 1]}}),
    "anyOf": thing(value={"anyOf": [WHOLE, text(), thing(x=WHOLE)]}),
    "anyOf with siblings": {
        **thing("kind", kind=text(1, 5), x=WHOLE, y=WHOLE),
        "anyOf": [{"required": ["x"]}, {"required": ["y"]}],
    },
    "oneOf by type": {"oneOf": [{"type": "boolean"}, {"type": "number", "minimum": 0, "maximum": 5}]},
    "oneOf by const": {
        "oneOf": [thing(kind={"const": "dog"}, bark=WHOLE), thing(kind={"const": "cat"}, purr={"type": "boolean"})]
    },
    "twenty objects told apart behind addresses": {
        "anyOf": [
            thing(link={"type": "string", "format": "uri"}, by=formats("email", "uri"), kind={"const": index})
            for index in range(20)
        ]
    },
    "oneOf by names": {"oneOf": [thing(left=WHOLE), thing(right=text())]},
    "allOf": {
        "allOf": [
            {"type": "object", "properties": {"a": {"type": "number"}}, "required": ["a"]},
            {"properties": {"a": {"type": "integer", "minimum": 3, "maximum": 9}, "b": WHOLE}, "required": ["b"]},
        ]
    },
    "$ref": {**thing(a={"$ref": "#/$defs/name"}, b={"$ref": "#/$defs/name"}), "$defs": {"name": text(1, 8)}},
    "$ref with siblings": {
        **thing(a={"$ref": "#/$defs/n", "maximum": 7, "description": "small"}),
        "$defs": {"n": {"type": "integer", "minimum": 2}},
    },
    "linked list": {"$ref": "#/$defs/node", "$defs": {"node": NODE}},
    "tree": TREE,
    "integer bounds": thing(
        a={"type": "integer", "minimum": -7, "maximum": 12},
        b={"type": "integer", "exclusiveMinimum": 99, "exclusiveMaximum": 1003},
        c={"type": "integer", "minimum": 18},
        d={"type": "integer", "maximum": -3},
    ),
    "number bounds": thing(
        confidence={"type": "number", "minimum": 0, "maximum": 1},
        share={"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 0.5},
        cold={"type": "number", "minimum": -40.25, "maximum": -0.5},
        price={"type": "number", "minimum": 0.01},
    ),
    "string lengths": thing(a=text(3, 5), b=text(0, 0), c={"type": "string", "minLength": 2, "maxLength": 40}),
    "patterns": thing(
        plate={"type": "string", "pattern": r"^[A-Z]{1,3}-[A-Z]{1,2} \d{1,4}$"},
        either={"type": "string", "pattern": r"^(?:yes|no|may\.be)$"},
        quoted={"type": "string", "pattern": r'^"[^"\d]{1,4}"\\$', "maxLength": 10},
        loose={"type": "string", "pattern": "a{2,3}|[^a-z]{1,3}"},
    ),
    "formats of times": formats("date", "time", "date-time", "duration"),
    "formats of names": formats("email", "hostname", "ipv4"),
    "formats of places": formats("ipv6", "uuid", "uri"),
    "nullable": thing(a={"type": ["string", "null"], "maxLength": 8}, b={"anyOf": [WHOLE, {"type": "null"}]}),
    "additional properties": {
        **thing("ab", ab=WHOLE, ac=WHOLE),
        "additionalProperties": {"type": "boolean"},
        "maxProperties": 4,
    },
    "a map": {"type": "object", "additionalProperties": WHOLE, "minProperties": 1, "maxProperties": 3},
    "unicode keys": thing(**{"größe": WHOLE, "名前": text(), 'a"b\\c': WHOLE, "🙂": {"type": "boolean"}, "": WHOLE}),
    "required but undeclared": {"type": "object", "required": ["x"], "properties": {"y": WHOLE}, "maxProperties": 3},
    "safe integers": thing(
        zod={"type": "integer", "minimum": -(2**53 - 1), "maximum": 2**53 - 1},
        int64={"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
        above={"type": "integer", "exclusiveMinimum": 0, "maximum": 2**53 - 1},
        number={"type": "number", "minimum": -1e300, "maximum": 1e300},
    ),
    "formats beside patterns": thing(
        mail={"type": "string", "format": "email", "pattern": ZOD_EMAIL},
        day={"type": "string", "format": "date", "pattern": r"^2\d{3}-01-0[1-9]$"},
        price={"type": "string", "pattern": r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"},
    ),
    "property names": {
        "type": "object",
        "propertyNames": {"type": "string", "pattern": "^[a-z]{1,3}$"},
        "additionalProperties": WHOLE,
        "maxProperties": 3,
    },
    "names of a record": {
        **thing(),
        "propertyNames": {"enum": ["left", "right"]},
        "additionalProperties": WHOLE,
        "maxProperties": 2,
    },
    "multiples": thing(
        five={"type": "integer", "minimum": 0, "maximum": 100, "multipleOf": 5},
        tenth={"type": "number", "minimum": 0, "maximum": 1, "multipleOf": 0.5},
        one={"type": "number", "multipleOf": 1, "minimum": -3},
    ),
    "escaped pointer": {**thing(a={"$ref": "#/$defs/x~1y~0z"}), "$defs": {"x/y~z": {"type": "boolean"}}},
}

REFUSED: dict[str, tuple[Any, str]] = {
    "not": ({"not": {"type": "string"}}, "uses not"),
    "conditions": (thing(a={"if": {"type": "string"}, "then": True}), "at 'properties/a' uses if"),
    "multiples": (thing(a={"type": "integer", "multipleOf": 3}), "multipleOf"),
    "unique items": ({"type": "array", "items": WHOLE, "uniqueItems": True}, "uniqueItems"),
    "other documents": (thing(a={"$ref": "https://example.com/x.json"}), "only paths inside"),
    "dangling reference": (thing(a={"$ref": "#/$defs/gone"}), "which is not there"),
    "itself": ({"$ref": "#"}, "refers to itself"),
    "itself in a ring": ({"anyOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"$ref": "#"}]}}}, "itself"),
    "itself in allOf": ({"allOf": [{"$ref": "#"}, {"type": "object"}]}, "itself"),
    "overlapping oneOf": ({"oneOf": [WHOLE, {"type": "number"}]}, "may hold together"),
    "look-ahead": ({"type": "string", "pattern": "^(?=a)b$"}, "looks around"),
    "back-reference": ({"type": "string", "pattern": r"(a)\1"}, r"has \\1"),
    "lengths times repeats": ({"type": "string", "pattern": "^([a-z]{1,40}){1,40}$"}, "repeats too often"),
    "pattern against length": ({"type": "string", "pattern": "^a*$", "maxLength": 3}, "keep to maxLength"),
    "pattern below length": ({"type": "string", "pattern": "^a$", "minLength": 3}, "keep to minLength"),
    "property names beside properties": (
        {**thing(a=WHOLE), "additionalProperties": WHOLE, "propertyNames": {"pattern": "^a$"}},
        "uses propertyNames beside properties",
    ),
    "a property that no name allows": ({**thing(a=WHOLE), "propertyNames": {"enum": ["b"]}}, "do not allow"),
    "property names that are no strings": ({"type": "object", "propertyNames": WHOLE}, "allow no string"),
    "no number left": ({"type": "integer", "minimum": 5, "maximum": 4}, "leaves no number"),
    "false": (thing(a=False), "allows nothing"),
    "unknown type": ({"type": "text"}, "known are object"),
    "type against enum": ({"type": "string", "enum": [1, 2]}, "type does not allow"),
    "no list": ({"anyOf": {}}, "no list"),
    "no schema": (thing(a=3), "neither an object"),
    "too many items": ({"type": "array", "minItems": 5000}, "up to 2000"),
    "wrong length": ({"type": "string", "maxLength": -1}, "whole number"),
    "too large": (thing(**{f"p{i}": {"type": "string", "maxLength": 900 + i} for i in range(40)}), "20000 parts"),
    "allOf at odds": ({"allOf": [{"type": "string"}, {"type": "integer"}]}, "allows no type"),
    "names by pattern": ({"type": "object", "patternProperties": {"^a": WHOLE}}, "patternProperties"),
}
