"""The cost of a grammar in llama.cpp, computed before llama.cpp reads it.

llama.cpp's reader (``llama-grammar.cpp`` in 0.3.36 of the bindings) has four costs:

- it recurses for each group, and for each rule that may come first
- it visits such a rule once for each way that leads to it
- it writes repeats out
- it prints a grammar that it refuses

A grammar that would overflow its stack, or keep it busy for hours, must never reach it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from edgeserve.engines.grammar.rules import Unsayable

MAX_NESTING = 200
"""Groups in groups; llama.cpp takes a stack frame for each."""
MAX_CHAIN = 5000
"""Rules of which each may begin with the next; llama.cpp takes a stack frame for each. A repeat counts as often as it
is written out.
"""
MAX_LOOKS = 20_000_000
"""Elements that llama.cpp's search for left recursion visits: less than 0.2 s."""
MAX_ELEMENTS = 2_000_000
"""Elements of all rules together, repeats written out: 8 bytes each, twice."""
MAX_PRODUCT = 2000
"""llama.cpp's MAX_REPETITION_THRESHOLD: names in the repeated item, times the repeats."""

SIGN = (
    r'"(?P<text>(?:[^"\\]|\\.)*)"|\[(?P<set>(?:[^\]\\]|\\.)*)\]|(?P<name>[A-Za-z0-9-]+)'
    r"|(?P<sign>[()|*+?])|\{(?P<low>\d+)(?P<range>,?)(?P<high>\d*)\}|(?P<blank>[ ]+)"
)
ESCAPE = r"\\(?:x..|u....|U.{8}|.)"

Rule = list[list[int]]
"""Alternatives. An element is the number of a rule, or, if negative, a count of characters and ranges."""


def check(grammar: str) -> None:
    """Raise Unsayable for a grammar that llama.cpp refuses or cannot read in bounded time and stack."""
    rules = _Reader(grammar).rules
    _check_beginnings(rules)


class _Reader:
    """Rules as llama.cpp writes them out: groups and repeats are rules of their own."""

    def __init__(self, grammar: str) -> None:
        self.rules: list[Rule | None] = []
        self._numbers: dict[str, int] = {}
        self._elements = 0
        for line in grammar.split("\n"):
            name, defined, body = line.partition(" ::= ")
            if defined:
                number = self._number(name.strip())
                self._nesting = 0
                self._tokens = re.finditer(SIGN, body)
                self.rules[number] = self._alternatives()
        if None in self.rules:
            raise ValueError("a rule is not defined")

    def _number(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = self._new(None)
        return self._numbers[name]

    def _new(self, rule: Rule | None) -> int:
        self.rules.append(rule)
        return len(self.rules) - 1

    def _count(self, elements: int) -> None:
        self._elements += elements
        if self._elements > MAX_ELEMENTS:
            raise Unsayable(f"makes a grammar of more than {MAX_ELEMENTS} elements; use smaller limits")

    def _alternatives(self) -> Rule:
        """Read alternatives up to the end, or to the closing bracket."""
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise Unsayable(f"makes a grammar nested more than {MAX_NESTING} levels deep")
        rule: Rule = [[]]
        last, names = 0, 1
        """Start of the previous item, and the number of names in it."""
        for token in self._tokens:
            sequence = rule[-1]
            if token["sign"] in ("|", ")"):
                if token["sign"] == ")":
                    break
                rule.append([])
                last, names = 0, 1
            elif token["sign"] == "(":
                before = len(self.rules)
                number = self._new(None)
                self.rules[number] = self._alternatives()
                last, names = len(sequence), max(1, len(self.rules) - before)
                sequence.append(number)
            elif token["blank"] is None and (token["sign"] or token["low"]):
                names *= self._repeated(sequence, last, names, *_counts(token))
            elif token["blank"] is None:
                last, names = len(sequence), 1
                self._item(sequence, token)
        self._nesting -= 1
        return rule

    def _item(self, sequence: list[int], token: re.Match[str]) -> None:
        if token["name"]:
            sequence.append(self._number(token["name"]))
        elif length := len(re.sub(ESCAPE, "x", token["text"] or token["set"] or "")):
            sequence.append(-length)
            self._count(length)

    def _repeated(self, sequence: list[int], last: int, names: int, low: int, high: int | None) -> int:
        """Write out the repeats of the item that starts at ``last``."""
        total = high or low or 1
        if names * total > MAX_PRODUCT:
            raise Unsayable(f"repeats {names} parts {total} times; {MAX_PRODUCT} in all are possible")
        item = sequence[last:]
        if not item:
            raise Unsayable("repeats a text of no length")
        width = sum(max(1, -one) for one in item)
        self._count(width * max(1, total))
        sequence[last:] = item * low
        optional = 1 if high is None else high - low
        following: list[int] = []
        for _ in range(optional):
            number = self._new(None)
            self.rules[number] = [[*item, *([number] if high is None else following)], []]
            following = [number]
        sequence += following
        return total


def _counts(token: re.Match[str]) -> tuple[int, int | None]:
    if token["sign"]:
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[token["sign"]]
    low = int(token["low"])
    return low, low if not token["range"] else int(token["high"]) if token["high"] else None


def _check_beginnings(rules: list[Rule | None]) -> None:
    """llama.cpp's search for left recursion; here it visits each rule once instead of once for each way to it."""
    looks, chain = [0] * len(rules), [0] * len(rules)
    total = 0
    for root in range(len(rules)):
        if looks[root]:
            continue  # it was visited on the way from another
        under_way = {root: None}
        path = [(root, _beginnings(rules, root))]
        while path:
            number, children = path[-1]
            child = next(children, None)
            if child is None:
                path.pop()
                del under_way[number]
                looks[number] += sum(1 + sum(max(1, -one) for one in sequence) for sequence in rules[number] or ())
                if path:
                    _add(looks, chain, path[-1][0], number)
            elif child in under_way:
                raise Unsayable("makes a grammar that goes round in a circle before its first character")
            elif looks[child]:
                _add(looks, chain, number, child)
            else:
                under_way[child] = None
                path.append((child, _beginnings(rules, child)))
        total += looks[root]
        if total > MAX_LOOKS or chain[root] > MAX_CHAIN:
            raise Unsayable("joins too many parts that may come first; use fewer unions in unions")


def _add(looks: list[int], chain: list[int], number: int, child: int) -> None:
    looks[number] += looks[child]
    chain[number] = max(chain[number], chain[child] + 1)


def _beginnings(rules: list[Rule | None], number: int) -> Iterator[int]:
    """Rules that may come first in rule ``number``, with repetitions. After a rule that may be empty, the next may come
    first."""
    for sequence in rules[number] or ():
        for element in sequence:
            if element < 0:
                break
            yield element
            if [] not in (rules[element] or ()):
                break
