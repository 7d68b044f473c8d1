"""A JSON schema as GBNF rules. Every text of the rules is valid for the schema; keywords that rules cannot express are
refused.

A schema that is not ``strict`` loses such a keyword instead, and the text may break it.

The grammar may be narrower than the schema. Properties come in the order of their declaration. Undeclared properties
appear only where ``additionalProperties`` says so. Repeats end at ``rules.MAX_REPEATS``.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Iterator
from typing import Any

from edgeserve.engines.grammar import number, schema_text, schema_ways
from edgeserve.engines.grammar import object as gbnf_object
from edgeserve.engines.grammar.object import Member
from edgeserve.engines.grammar.rules import MAX_STEPS, Rules, Unsayable, either, literal, one_of_texts
from edgeserve.engines.grammar.schema_keywords import as_json, bounds, check_values, item, told
from edgeserve.engines.grammar.schema_left_out import LeftOut
from edgeserve.engines.grammar.schema_oneof import apart
from edgeserve.engines.grammar.schema_parts import OWN, merge, types, values, width
from edgeserve.engines.grammar.schema_plain import MAX_DEPTH, Parts
from edgeserve.errors import InvalidRequest

COMMA = ' "," ws '

Opened = frozenset[str]
"""References followed on the way to a part, with nothing written in between. Meeting one again would never end."""


class SchemaGrammar:
    """Rules of one schema. Errors name ``field`` of the request. ``strict``: no keyword is left out."""

    def __init__(self, rules: Rules, schema: Any, field: str, *, strict: bool = True) -> None:
        self._rules = rules
        self._strict = strict
        self._left_out = LeftOut()
        self._parts = Parts(schema, rules, self._left_out.assertions)
        self._root = schema
        self._field = field
        self._names: dict[str, str] = {}
        self._path: list[str] = []
        self._depth = 0

    @property
    def loosened(self) -> list[str]:
        """Keywords that were left out, each with the place of the first."""
        return self._left_out.told

    def convert(self) -> str:
        """The expression of an instance. Raises InvalidRequest naming the part."""
        while True:
            try:
                self._rules.spend(check_values(self._root) // 16)
                text = self._visit(self._root, frozenset())
                schema_ways.check(self._root, self._parts.plain, self._rules.budget)
                return text
            except Unsayable as error:
                place = told("/".join(self._path))[1:-1] if self._path else ""
                spent = self._rules.budget.spent > MAX_STEPS  # what was spent stays spent
                if self._strict or spent or not self._left_out.add(error, place):
                    text = f"{self._field}: the schema {f'at {place!r} ' if place else ''}{error}"
                    raise InvalidRequest(text, param=self._field) from None
                self._names, self._path, self._depth = {}, [], 0

    @contextlib.contextmanager
    def _at(self, *names: str) -> Iterator[None]:
        """Path for error messages; an error leaves it as it is."""
        self._path += names
        yield
        del self._path[-len(names) :]

    def _visit(self, schema: Any, opened: Opened) -> str:
        self._rules.count(1)
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise Unsayable(f"is nested more than {MAX_DEPTH} levels deep, references included")
        try:
            return self._visited(schema, opened)
        finally:
            self._depth -= 1

    def _visited(self, schema: Any, opened: Opened) -> str:
        if schema is True:
            return "value"
        if not isinstance(schema, dict):
            raise Unsayable("allows nothing" if schema is False else "is neither an object nor true")
        if "$id" in schema and self._path:
            raise Unsayable("has an $id of its own, which is supported at the top only")
        self._rules.spend(width(schema))
        schema = self._left_out.assertions(schema)
        if list(schema) == ["$ref"]:
            return self._reference(schema["$ref"], opened)
        if "$ref" in schema or "allOf" in schema:
            return self._joined(schema, opened)
        for key in ("anyOf", "oneOf"):
            if key in schema:
                return self._union(schema, key, opened)
        if (listed := values(schema)) is not None:
            return one_of_texts(self._rules, map(as_json, listed))
        kinds = types(schema)
        return either(*(self._typed(kind, schema) for kind in kinds)) if kinds else "value"

    # References and combinations

    def _reference(self, ref: str, opened: Opened) -> str:
        if ref in opened:
            raise Unsayable(f"refers to itself ({told(ref)[1:-1]}) with nothing in between")
        if ref not in self._names:
            target = self._parts.resolve(ref)
            self._names[ref] = self._rules.reserve()
            self._rules.define(self._names[ref], self._visit(target, opened | {ref}))
        return self._names[ref]

    def _joined(self, schema: dict[str, Any], opened: Opened) -> str:
        """A reference or allOf beside other keywords: merged first, and named, since it may refer to itself."""
        merged = self._parts.plain(schema)
        name = as_json(merged)
        self._rules.spend(len(name) // 16)
        if name in opened:
            raise Unsayable("refers to itself with nothing in between")
        if name not in self._names:
            self._names[name] = self._rules.reserve()
            self._rules.define(self._names[name], self._visit(merged, opened | {name}))
        return self._names[name]

    def _union(self, schema: dict[str, Any], key: str, opened: Opened) -> str:
        rest = {name: value for name, value in schema.items() if name != key}
        branches = schema[key]
        if not branches:
            raise Unsayable(f"has an empty {key}")
        if rest:
            branches = [merge([rest, self._parts.plain(branch)], self._rules.spend) for branch in branches]
        if key == "oneOf":
            plain = [self._parts.plain(branch) for branch in branches]
            for index, one in enumerate(plain):
                if not all(apart(one, other, self._parts.plain, self._rules.spend) for other in plain[:index]):
                    text = "has branches of oneOf that may hold together; use anyOf, or tell them by a const"
                    raise Unsayable(text, key, schema[key])
        choices = []
        for index, branch in enumerate(branches):
            with self._at(key, str(index)):
                choices.append(self._visit(branch, opened))
        return self._rules.add(either(*choices))

    # Types

    def _typed(self, kind: str, schema: dict[str, Any]) -> str:
        """An instance of one type; keywords of other types do not apply."""
        if kind in ("boolean", "null"):
            return either('"true"', '"false"') if kind == "boolean" else literal("null")
        own = {key: schema[key] for key in OWN["number" if kind == "integer" else kind] if key in schema}
        if not own:
            return kind
        make: dict[str, Callable[[dict[str, Any]], str]] = {
            "object": self._object,
            "array": self._array,
            "string": functools.partial(schema_text.expression, self._rules),
        }
        return self._rules.add(make[kind](own) if kind in make else number.of_schema(kind, own))

    def _object(self, schema: dict[str, Any]) -> str:
        declared, more = schema.get("properties", {}), schema.get("additionalProperties")
        required = dict.fromkeys(schema.get("required", []))
        if more is None and "properties" not in schema:
            more = True
        unknown = [name for name in required if name not in declared]
        if unknown and more is False:
            raise Unsayable(f"requires {told(unknown[0])}, which its additionalProperties does not allow")
        declared = {**declared, **dict.fromkeys(unknown, True if more is None else more)}
        members = []
        for name, part in declared.items():
            if part is not False or name in required:
                with self._at("properties", name):
                    value = self._rules.add(self._visit(part, frozenset()))
                members.append(Member(f'{literal(as_json(name))} ":" ws {value}', name in required))
        low, high = bounds(schema, "Properties")
        sure = sum(member.required for member in members)
        key = self._key(schema.get("propertyNames", True), declared)
        if more is None or more is False:
            if low > sure:
                raise Unsayable("uses minProperties beyond what required says", *item(schema, "minProperties"))
            if high is not None and high < len(members):
                raise Unsayable("uses maxProperties beyond what required says", *item(schema, "maxProperties"))
            return gbnf_object.body(self._rules, members)
        least = max(0, low - sure)
        if least > 1:  # of the others, two may have one name
            text = "uses minProperties for names that are not in required"
            raise Unsayable(text, *item(schema, "minProperties"))
        if high is not None and high < len(members) + least:
            raise Unsayable("has a maxProperties that its properties may exceed", *item(schema, "maxProperties"))
        with self._at("additionalProperties"):
            value = self._rules.add(self._visit(more, frozenset()))
        if not key:
            return gbnf_object.body(self._rules, members)
        other = self._rules.add(f'{key} ":" ws {value}')
        return gbnf_object.body(self._rules, members, other, least, None if high is None else high - len(members))

    def _key(self, names: Any, declared: dict[str, Any]) -> str:
        """The expression of a key that is not declared, by propertyNames; empty where no other key is allowed."""
        schema = {} if names is True else self._parts.plain(names)
        kinds = types(schema)
        if kinds and "string" not in kinds:
            raise Unsayable("has propertyNames that allow no string", "propertyNames", names)
        listed = values(schema)
        if listed is not None:
            if unknown := [name for name in declared if name not in listed]:
                text = f"declares the property {told(unknown[0])}, which its propertyNames do not allow"
                raise Unsayable(text, "propertyNames", names)
            left = [name for name in listed if isinstance(name, str) and name not in declared]
            return one_of_texts(self._rules, map(as_json, left)) if left else ""
        own = {key: schema[key] for key in OWN["string"] if key in schema}
        if not own and not (schema.keys() - {"type"}):
            return gbnf_object.other_key(self._rules, declared)
        if declared or not own:
            raise Unsayable("uses propertyNames beside properties", "propertyNames", names)
        return self._rules.add(schema_text.expression(self._rules, own))

    def _array(self, schema: dict[str, Any]) -> str:
        items, more = schema.get("prefixItems", []), schema.get("items")
        if isinstance(more, list):  # as written before 2020
            items, more = more, schema.get("additionalItems")
        low, high = bounds(schema, "Items")
        if schema.get("uniqueItems") and (high is None or high > 1):
            raise Unsayable("uses uniqueItems, which is not supported", *item(schema, "uniqueItems"))
        heads = []
        for index, part in enumerate(items[:high]):
            with self._at("prefixItems", str(index)):
                heads.append(self._visit(part, frozenset()))
        if more is None and not heads:
            more = True
        least = max(0, low - len(heads))
        most = None if high is None else high - len(heads)
        if (most is not None and least > most) or (more is False and least):
            raise Unsayable(f"asks for at least {low} items and does not allow so many")
        if more is False or most == 0 or (more is None and not least):
            return f'"[" {COMMA.join(heads)} "]"'
        with self._at("items"):
            one = self._rules.add(self._visit(True if more is None else more, frozenset()))
        if not heads:
            return f'"[" {self._rules.listed(one, least, most)} "]"'
        tail = self._rules.repeat(f'( "," ws {one} )', least, most)
        return f'"[" {COMMA.join(heads)} {tail} "]"'
