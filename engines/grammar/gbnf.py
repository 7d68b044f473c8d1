"""Grammars that clients write, in llama.cpp's notation (GBNF), read into rules of our own.

llama.cpp never sees such a grammar: its reader and its search have no bounds (docs/decisions/0011). ``matcher`` follows
the rules instead. Supported: literals, sets of characters, ".", names, groups, alternatives, repeats and comments.
"""

from __future__ import annotations

import re

from edgeserve.dataclass import dataclass
from edgeserve.engines.grammar.chars import joined, without
from edgeserve.engines.grammar.kept import keeping
from edgeserve.engines.grammar.left import check_left
from edgeserve.engines.grammar.rules import Unsayable
from edgeserve.errors import InvalidRequest

FIELD = "grammar"
MAX_ELEMENTS = 50_000
"""Elements of all rules together, repeats written out."""
MAX_NESTING = 64
"""Groups in groups."""
KEPT = 4_000
"""Elements of a grammar that is kept for the next requests, half a megabyte. One of 50,000 takes 4 MB."""
LAST = 0x10FFFF
"""The last character of Unicode."""
Chars = tuple[tuple[int, int], ...]
"""Ranges of characters, rising and apart."""
ANY: Chars = ((0, LAST),)

SIGN = (
    r'(?P<blank>[ \t]+|#[^\r\n]*)|(?P<line>\r\n|\n|\r)|(?P<defined>::=)|"(?P<text>(?:[^"\\\r\n]|\\.)*)"'
    r"|\[(?P<set>(?:[^\]\\\r\n]|\\.)*)\]|(?P<name>[A-Za-z0-9-]+)|(?P<sign>[()|*+?.])"
    r"|\{\s*(?P<low>[0-9]{1,6})\s*(?P<range>,?)\s*(?P<high>[0-9]{0,6})\s*\}"
)
ESCAPES = {"n": "\n", "r": "\r", "t": "\t"}
CODES = {"x": 2, "u": 4, "U": 8}
"""Digits of an escape by number."""

Element = int | Chars
"""The number of a rule, or the characters that one character may be."""
Rule = list[tuple[Element, ...]]
"""Alternatives."""


@dataclass(frozen=True, slots=True, eq=False)
class Gbnf:
    """A grammar that was read and checked. ``root``: the number of the first rule."""

    rules: tuple[Rule, ...]
    root: int


def _size(grammar: Gbnf, text: str) -> int:
    """Elements, ends of sequences and ranges of characters. A comment is as large as the elements of its length."""
    elements = (one for rule in grammar.rules for sequence in rule for one in (*sequence, 0))
    return sum(1 if isinstance(one, int) else len(one) for one in elements) + len(text) // 16


@keeping(count=16, most=KEPT, size=_size)
def parsed(text: str) -> Gbnf:
    """The grammar. Raises InvalidRequest naming the line."""
    try:
        return _Reader(text).read()
    except Unsayable as error:
        raise InvalidRequest(f"{FIELD}: {error}", param=FIELD) from None


@dataclass(slots=True)
class _Sign:
    """A token and its line."""

    match: re.Match[str]
    line: int

    def __getitem__(self, name: str) -> str | None:
        found: str | None = self.match[name]
        return found


class _Reader:
    def __init__(self, text: str) -> None:
        self._signs = list(_signs(text))
        self._at = 0
        self._rules: list[Rule | None] = []
        self._numbers: dict[str, int] = {}
        self._elements = self._nesting = 0

    def read(self) -> Gbnf:
        """Raises Unsayable."""
        while self._skip_lines():
            self._read_rule()
        if "root" not in self._numbers:
            raise Unsayable("has no rule named root")
        missing = [name for name, number in self._numbers.items() if self._rules[number] is None]
        if missing:
            raise Unsayable(f"names the rule {missing[0][:80]!r}, which is not defined")
        rules = tuple(rule for rule in self._rules if rule is not None)
        check_left(rules)
        return Gbnf(rules, self._numbers["root"])

    # Tokens

    def _next(self) -> _Sign | None:
        return self._signs[self._at] if self._at < len(self._signs) else None

    def _skip_lines(self) -> bool:
        """Skip ends of lines. False at the end of the text."""
        while (sign := self._next()) is not None and sign["line"] is not None:
            self._at += 1
        return sign is not None

    def _line(self) -> int:
        sign = self._next() or (self._signs[-1] if self._signs else None)
        return sign.line if sign is not None else 1

    def _wrong(self, text: str) -> Unsayable:
        return Unsayable(f"line {self._line()}: {text}")

    def _is(self, sign: str) -> bool:
        found = self._next()
        return found is not None and found["sign"] == sign

    # Rules

    def _read_rule(self) -> None:
        name = self._next()
        if name is None or name["name"] is None:
            raise self._wrong("expected the name of a rule")
        self._at += 1
        defined = self._next()
        if defined is None or defined["defined"] is None:
            raise self._wrong(f"expected ::= after the name {str(name['name'])[:80]!r}")
        self._at += 1
        number = self._number(str(name["name"]))
        if self._rules[number] is not None:
            raise self._wrong(f"the rule {str(name['name'])[:80]!r} is defined twice")
        self._skip_lines()
        self._rules[number] = self._alternatives(nested=False)
        end = self._next()
        if end is not None and end["line"] is None:
            raise self._wrong("expected the end of the rule")

    def _number(self, name: str) -> int:
        if name not in self._numbers:
            self._numbers[name] = self._new(None)
        return self._numbers[name]

    def _new(self, rule: Rule | None) -> int:
        self._count(1)
        self._rules.append(rule)
        return len(self._rules) - 1

    def _count(self, elements: int) -> None:
        self._elements += elements
        if self._elements > MAX_ELEMENTS:
            raise self._wrong(f"the grammar has more than {MAX_ELEMENTS} elements, repeats written out")

    def _alternatives(self, *, nested: bool) -> Rule:
        rule: Rule = []
        while True:
            rule.append(self._sequence(nested=nested))
            if not self._is("|"):
                return rule
            self._at += 1
            self._skip_lines()

    def _sequence(self, *, nested: bool) -> tuple[Element, ...]:
        sequence: list[Element] = []
        last = 0
        """Start of the item that a repeat repeats."""
        while True:
            if nested:
                self._skip_lines()
            sign = self._next()
            if sign is None or sign["line"] is not None or sign["sign"] in ("|", ")"):
                return tuple(sequence)
            if sign["sign"] in ("*", "+", "?") or sign["low"] is not None:
                self._at += 1
                self._repeat(sequence, last, *_counts(sign))
                last = len(sequence)
                continue
            last = len(sequence)
            self._at += 1
            sequence += self._item(sign)
            self._count(len(sequence) - last)

    def _item(self, sign: _Sign) -> list[Element]:
        if sign["name"] is not None:
            return [self._number(str(sign["name"]))]
        if (text := sign["text"]) is not None:
            return [((code, code),) for code in self._codes(text)]
        if (chars := sign["set"]) is not None:
            return [self._ranges(chars)]
        if sign["sign"] == ".":
            return [ANY]
        if sign["sign"] == "(":
            return [self._group()]
        raise self._wrong("expected a literal, a set, a name or a group")

    def _group(self) -> int:
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise self._wrong(f"groups are nested more than {MAX_NESTING} levels deep")
        number = self._new(self._alternatives(nested=True))
        if not self._is(")"):
            raise self._wrong("a group is not closed")
        self._at += 1
        self._nesting -= 1
        return number

    def _repeat(self, sequence: list[Element], last: int, low: int, high: int | None) -> None:
        """Write out the repeats of the item that starts at ``last``."""
        item = tuple(sequence[last:])
        if not item:
            raise self._wrong("a repeat has nothing to repeat")
        if high is not None and high < low:
            raise self._wrong(f"a repeat asks for at least {low} and at most {high}")
        self._count(len(item) * (low if high is None else high))
        sequence[last:] = item * low
        if high is None:
            number = self._new(None)
            self._rules[number] = [(*item, number), ()]
            sequence.append(number)
            return
        following: tuple[Element, ...] = ()
        for _ in range(high - low):
            following = (self._new([(*item, *following), ()]),)
        sequence += following

    # Characters

    def _codes(self, text: str) -> list[int]:
        """The characters of a literal, or of a set without its ranges."""
        codes, at = [], 0
        while at < len(text):
            code, at = self._code(text, at)
            codes.append(code)
        return codes

    def _code(self, text: str, at: int) -> tuple[int, int]:
        if text[at] != "\\":
            return ord(text[at]), at + 1
        kind = text[at + 1]
        if (digits := CODES.get(kind)) is None:
            return ord(ESCAPES.get(kind, kind)), at + 2
        number = text[at + 2 : at + 2 + digits]
        if not re.fullmatch(f"[0-9A-Fa-f]{{{digits}}}", number) or int(number, 16) > LAST:
            raise self._wrong(f"\\{kind} needs {digits} hexadecimal digits of a character")
        return int(number, 16), at + 2 + digits

    def _ranges(self, text: str) -> Chars:
        inverse, at = text.startswith("^"), int(text.startswith("^"))
        found: list[tuple[int, int]] = []
        while at < len(text):
            low, at = self._code(text, at)
            high = low
            if text[at : at + 1] == "-" and at + 1 < len(text):
                high, at = self._code(text, at + 1)
            if high < low:
                raise self._wrong(f"the set [{text[:80]}] has a range that ends before it begins")
            found.append((low, high))
        return tuple(without([(0, LAST)], found) if inverse else joined(found))


def _signs(text: str) -> list[_Sign]:
    """The tokens without blanks. Raises Unsayable."""
    token, found, at, line = re.compile(SIGN), [], 0, 1
    while at < len(text):
        match = token.match(text, at)
        if match is None:
            raise Unsayable(f"line {line}: {text[at : at + 20]!r} is not understood")
        if match["blank"] is None:
            found.append(_Sign(match, line))
        line += match["line"] is not None
        at = match.end()
    return found


def _counts(sign: _Sign) -> tuple[int, int | None]:
    if sign["sign"]:
        return {"*": (0, None), "+": (1, None), "?": (0, 1)}[str(sign["sign"])]
    low = int(str(sign["low"]))
    return low, low if not sign["range"] else int(str(sign["high"])) if sign["high"] else None
