"""The number of ways of reading one text that a schema leaves open at once.

llama.cpp follows every way that a grammar allows. Two branches of a union may begin alike and both hold the union
again. Then each level of the answer doubles the ways: twenty brackets are a million, and the process hangs.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator
from dataclasses import field
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.engines.grammar import number, pattern
from edgeserve.engines.grammar.rules import Budget, Unsayable
from edgeserve.engines.grammar.schema_formats import FORMATS, known
from edgeserve.engines.grammar.schema_oneof import apart
from edgeserve.engines.grammar.schema_parts import OWN, Schema, merge, types, values

MAX_WAYS = 300
"""Ways allowed at once. Measured with 49,152 tokens:

- 1,024 ways, ten levels deep: 2.7 s for a token where all tokens must be checked
- 1,024 ways of a flat text: a quarter of that
"""
FLAT = 4
"""Ways of a flat text that cost as much as one way through the levels."""
KNOWN = 64
"""The same for the text of a format. A token costs 6 ms at worst there, and 50 ms in a client's pattern."""
MAX_ALIKE = 24
"""Members of two objects to compare before the objects count as alike."""
SCALAR = {"string", "number", "integer", "boolean", "null"}

Plain = Callable[[Any], dict[str, Any]]


@dataclass(slots=True)
class Branch:
    """One type that a part may have: ``inside`` are the parts in it, ``ways`` those of its own text.

    ``endless``: it may hold any value. ``led``: ways of a member that another branch reads, too, before the two part.
    """

    kind: str
    schema: Schema
    inside: list[str] = field(default_factory=list)
    ways: int = 1
    endless: bool = False
    led: int = 0


def check(schema: Any, plain: Plain, budget: Budget) -> None:
    """Raise Unsayable beyond MAX_WAYS. ``plain`` returns a part without $ref and allOf."""
    parts = _Parts(plain, budget)
    root = parts.named(schema)
    rings, order = _rings(parts.branches, root)
    ways: dict[int, int] = {}
    heights: dict[str, float] = {}
    """Levels of what each part may hold."""
    for name in order:  # what is inside comes first
        most = 1
        tall = [_height(branch, heights) for branch in parts.branches[name]]
        heights[name] = max(tall, default=0)
        for alike in parts.alike(name):
            again = sum(_holds(branch, rings, name) for branch in alike)
            if again > 1:
                raise Unsayable(
                    "has a union of which two branches begin alike and hold the union again, so that each level "
                    "doubles the ways to read it; begin each branch with a property whose const tells it"
                )
            levels = 1.0
            if again and len(alike) > 1:
                levels = max(_height(branch, heights) for branch in alike if not _holds(branch, rings, name))
                if levels == math.inf:
                    raise Unsayable(
                        "has a union of which one branch holds the union again and another, which begins alike, has no "
                        "last level, so that each level adds ways to read it; begin each branch with a property whose "
                        "const tells it"
                    )
            inside = ([ways[rings[one]] for one in branch.inside if rings[one] in ways] for branch in alike)
            found = sum(max([branch.ways, *inner]) for branch, inner in zip(alike, inside, strict=True))
            most = max(most, found * int(levels))
        most = max(most, sum(branch.led for branch in parts.branches[name]))
        ways[rings[name]] = max(ways.get(rings[name], 1), most)
        if most > MAX_WAYS:
            raise Unsayable(f"can be read in {most} ways at once; up to {MAX_WAYS} are possible")


def _holds(branch: Branch, rings: dict[str, int], name: str) -> bool:
    """Whether a branch of a part holds the part again."""
    return any(rings[one] == rings[name] for one in branch.inside)


def _height(branch: Branch, heights: dict[str, float]) -> float:
    """Levels of a branch: 1 for a text without others in it. A part without a height holds itself."""
    return math.inf if branch.endless else 1 + max((heights.get(one, math.inf) for one in branch.inside), default=0)


def _endless(kind: str, schema: Schema) -> bool:
    """Whether a branch may hold any value, which has no last level."""
    if values(schema) is not None:
        return False
    if kind == "object":
        declared, more = schema.get("properties", {}), schema.get("additionalProperties")
        unknown = any(name not in declared for name in schema.get("required", ()))
        return True in (more, *declared.values()) or (more is None and ("properties" not in schema or unknown))
    if kind == "array":
        items, more = schema.get("prefixItems", []), schema.get("items")
        if isinstance(more, list):
            items, more = more, schema.get("additionalItems")
        return True in (more, *items) or (more is None and (not items or "minItems" in schema))
    return kind == "any"


class _Parts:
    """The parts of a schema by name, each with its branches."""

    def __init__(self, plain: Plain, budget: Budget) -> None:
        self._plain, self._budget, self._spend = plain, budget, budget.spend
        self._schemas: dict[str, dict[str, Any]] = {}
        self.branches: dict[str, list[Branch]] = {}

    def named(self, schema: Any) -> str:
        """Register a part with all parts in it; returns its name."""
        first = self._name(schema)
        waiting = [first]
        while waiting:
            name = waiting.pop()
            if name not in self.branches:
                self.branches[name] = self._branches(self._schemas[name])
                waiting += [one for branch in self.branches[name] for one in branch.inside]
        return first

    def _name(self, schema: Any) -> str:
        plain = self._plain(schema)
        name = json.dumps(plain, ensure_ascii=False)
        self._spend(1 + len(name) // 16)
        self._schemas.setdefault(name, plain)
        return name

    def _branches(self, schema: dict[str, Any]) -> list[Branch]:
        """One branch for each type; unions in unions become one list."""
        found: dict[tuple[str, str], Branch] = {}
        waiting, seen = [self._name(schema)], set[str]()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            plain = self._schemas[name]
            key = next((key for key in ("anyOf", "oneOf") if key in plain), None)
            if key is None:
                for kind in _kinds(plain):
                    found[kind, name] = self._branch(kind, plain)
                continue
            rest = {other: value for other, value in plain.items() if other != key}
            waiting += [self._name(merge([rest, self._plain(branch)], self._spend)) for branch in plain[key]]
        return list(found.values())

    def _branch(self, kind: str, schema: Schema) -> Branch:
        branch = Branch(kind, schema, endless=_endless(kind, schema))
        inside: list[Any] = []
        if kind == "object" and values(schema) is None:
            declared = schema.get("properties", {})
            inside = [*declared.values(), schema.get("additionalProperties")]
            required = set(schema.get("required", ()))
            branch.ways += sum(name not in required for name in declared) // FLAT
            names = schema.get("propertyNames")
            branch.ways += self._text_ways(self._plain(names)) if isinstance(names, dict) else 0
        elif kind == "array" and values(schema) is None:
            items = schema.get("items")
            inside = [*schema.get("prefixItems", []), *(items if isinstance(items, list) else [items])]
            inside.append(schema.get("additionalItems"))
        elif kind == "string":
            branch.ways += self._text_ways(schema)
        elif kind in ("number", "integer") and values(schema) is None and any(key in schema for key in OWN["number"]):
            # Each count of digits, before and after the point, begins with the same digits.
            branch.ways += number.of_schema(kind, schema).count("|") // FLAT
        branch.inside = [self._name(one) for one in inside if isinstance(one, dict)]
        return branch

    def _text_ways(self, schema: Schema) -> int:
        """Ways of a text by its pattern or format, beyond one."""
        if "pattern" in schema:
            return pattern.convert(known(schema["pattern"]), self._budget).live // FLAT
        form = FORMATS.get(schema.get("format", ""))
        return pattern.convert(form, self._budget).live // KNOWN if form else 0

    def alike(self, name: str) -> Iterator[list[Branch]]:
        """The branches of a part, grouped by branches that may be read together beyond their first characters."""
        groups: list[list[Branch]] = []
        for branch in self.branches[name]:
            joined = [group for group in groups if any(self._together(branch, other) for other in group)]
            groups = [group for group in groups if not any(group is one for one in joined)]
            groups.append([branch, *(other for group in joined for other in group)])
        yield from groups

    def _together(self, one: Branch, other: Branch) -> bool:
        self._spend(4)
        if "any" in (one.kind, other.kind):
            return True
        if one.kind != other.kind:
            return {one.kind, other.kind} == {"integer", "number"}
        led = [0]
        if one.kind != "object" or not self._parted(one.schema, other.schema, led):
            return True
        one.led, other.led = (max(branch.led, *led) for branch in (one, other))
        return False

    # Two objects, read member by member

    def _parted(self, one: Schema, other: Schema, led: list[int], at: int = 0, beside: int = 0) -> bool:
        """True when no object or list, from these members on, can be read as both. ``led`` gets the ways of members
        that are read as both before."""
        self._spend(4)
        if at + beside > MAX_ALIKE:
            return False
        here, there = _next(one, at), _next(other, beside)
        if (here.open and (there.names or there.open)) or (there.open and here.names):
            return False
        for name in here.names.keys() & there.names.keys():
            left, right = self._plain(one["properties"][name]), self._plain(other["properties"][name])
            if apart(left, right, self._plain, self._spend):
                continue
            both = [branch for part in (left, right) for branch in self._branches(part)]
            if any(branch.kind not in SCALAR for branch in both):
                return False
            led += (branch.ways for branch in both if branch.ways > 1)
            if not self._parted(one, other, led, here.names[name] + 1, there.names[name] + 1):
                return False
        return True


@dataclass(frozen=True, slots=True)
class _Next:
    """Members that may come next, by position. ``open``: undeclared members may come, too."""

    names: dict[str, int]
    open: bool


def _next(schema: Schema, at: int) -> _Next:
    declared, required = list(schema.get("properties", {})), schema.get("required", ())
    names: dict[str, int] = {}
    for place, name in enumerate(declared[at:], start=at):
        names[name] = place
        if name in required:
            return _Next(names, False)
    more = schema.get("additionalProperties", "properties" not in schema)
    return _Next(names, more is not False or any(name not in declared for name in required))


def _kinds(schema: Schema) -> list[str]:
    listed = values(schema)
    if listed is not None:
        return ["any" if any(isinstance(one, dict | list) for one in listed) else "string"]
    return types(schema) or ["any"]


def _rings(branches: dict[str, list[Branch]], root: str) -> tuple[dict[str, int], list[str]]:
    """Groups of parts that contain each other, one number each (Tarjan 1972), and all parts, inner parts first."""
    rings: dict[str, int] = {}
    found: dict[str, int] = {}
    lowest: dict[str, int] = {}
    order: list[str] = []
    open_parts: list[str] = []

    def enter(name: str) -> tuple[str, Iterator[str]]:
        found[name] = lowest[name] = len(found)
        open_parts.append(name)
        return name, iter([one for branch in branches[name] for one in branch.inside])

    path = [enter(root)]
    while path:
        name, inside = path[-1]
        child = next(inside, None)
        if child is None:
            path.pop()
            if path:
                lowest[path[-1][0]] = min(lowest[path[-1][0]], lowest[name])
            if lowest[name] == found[name]:
                while name not in rings:
                    rings[open_parts[-1]] = found[name]
                    order.append(open_parts.pop())
        elif child not in found:
            path.append(enter(child))
        elif child not in rings:
            lowest[name] = min(lowest[name], found[child])
    return rings, order
