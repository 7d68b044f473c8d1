"""Grammars in llama.cpp's own notation (GBNF): named rules, and the rules of JSON itself (RFC 8259).

White space is short, since small models tend to continue with it. Characters stand for themselves instead of escapes by
number. So lengths can be counted, and no half of a surrogate pair can appear.
"""

from __future__ import annotations

from collections.abc import Iterable

JSON = r"""
value  ::= object | array | string | number | "true" | "false" | "null"
object ::= "{" ( string ":" ws value ( "," ws string ":" ws value )* )? "}"
array  ::= "[" ( value ( "," ws value )* )? "]"
string ::= "\"" char* "\""
char   ::= plain | "\\" ["\\/bfnrt]
plain  ::= [\x20-\x21\x23-\x5B\x5D-\x7E\u00A0-\uD7FF\uE000-\uFFFD\U00010000-\U0010FFFF]
number ::= integer ( "." [0-9]{1,15} )? ( [eE] [-+]? [0-9]{1,2} )?
integer ::= "-"? ( "0" | [1-9] [0-9]{0,15} )
ws     ::= " "?
"""

MAX_REPEATS = 2000
"""Repeats of one item; llama.cpp writes each out as a rule of its own and takes no more."""

MAX_SIZE = 20_000
"""Rules and written-out repeats of one grammar."""
MAX_TEXT = 500_000
"""Characters of one grammar."""
MAX_STEPS = 300_000
"""Steps of work to make one grammar, about two microseconds each."""


FEW = 8
"""Number of texts up to which alternatives are written out."""
MAX_SPLITS = 40
"""Positions where texts with one beginning differ, one after the other."""

NOTHING = '""'
"""Text of no length."""


class Unsayable(ValueError):
    """A part that a grammar cannot express. The message continues a sentence after the name of the part.

    ``keyword``: the keyword of a JSON schema without which the part can be expressed, and the value of the keyword.
    """

    def __init__(self, message: str, keyword: str = "", value: object = None) -> None:
        super().__init__(message)
        self.keyword, self.value = keyword, value


def literal(text: str) -> str:
    """Exactly this text."""
    escapes = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
    return '"' + "".join(escapes.get(one, one) for one in text) + '"'


def either(*choices: str) -> str:
    unique = list(dict.fromkeys(choices))
    return unique[0] if len(unique) == 1 else f"( {' | '.join(unique)} )"


def one_of_texts(rules: Rules, texts: Iterable[str], depth: int = 0) -> str:
    """Exactly one of these texts. Equal beginnings are written once, since llama.cpp holds each alternative against
    each token."""
    unique = list(dict.fromkeys(texts))
    rules.spend(len(unique))
    if len(unique) < FEW or depth == MAX_SPLITS:
        return either(*map(literal, unique))
    groups: dict[str, list[str]] = {}
    for one in unique:
        groups.setdefault(one[:1], []).append(one)
    choices = []
    for group in groups.values():
        head = _beginning(min(group), max(group))
        if len(group) == 1:
            choices.append(literal(head))
        else:
            rest = one_of_texts(rules, (one[len(head) :] for one in group), depth + 1)
            choices.append(f"{literal(head)} {rules.add(rest)}")
    return either(*choices)


def _beginning(one: str, other: str) -> str:
    """The longest common beginning."""
    length = next((at for at, pair in enumerate(zip(one, other, strict=False)) if len({*pair}) > 1), len(one))
    return one[:length]


def repeat(item: str, low: int, high: int | None) -> str:
    """``item`` from ``low`` to ``high`` times (None: any number of times)."""
    if (low, high) == (0, None):
        return f"{item}*"
    if (low, high) == (1, 1):
        return item
    return f"{item}{{{low},{'' if high is None else high}}}"


class Budget:
    """Steps of work spent on one grammar."""

    def __init__(self) -> None:
        self.spent = 0
        self.made: dict[str, object] = {}
        """Results of work that is done once, by the text that it was done on."""

    def spend(self, steps: int) -> None:
        """Count steps. Raises Unsayable beyond the budget."""
        self.spent += steps
        if self.spent > MAX_STEPS:
            raise Unsayable(f"takes more than {MAX_STEPS} steps to convert; use fewer references and combinations")


class Rules:
    """Rules under construction; equal rules exist once. ``budget`` may be shared with rules that are made on trial."""

    def __init__(self, budget: Budget | None = None) -> None:
        self.budget = budget or Budget()
        self._bodies: dict[str, str] = {}
        self._names: dict[str, str] = {}
        self._size = self._text = 0

    def add(self, body: str) -> str:
        """The name of a rule with this body. Raises Unsayable."""
        if body not in self._names:
            self._names[body] = self.reserve()
            self.define(self._names[body], body)
        return self._names[body]

    def reserve(self) -> str:
        """Reserve a name for a rule that is defined later, so that its body may refer to it."""
        self.count(1)
        name = f"r{len(self._bodies)}"
        self._bodies[name] = ""
        return name

    def define(self, name: str, body: str) -> None:
        """Define a reserved rule. Raises Unsayable."""
        self._text += len(body)
        if self._text > MAX_TEXT:
            raise Unsayable(f"makes a grammar of more than {MAX_TEXT} characters; use fewer properties or values")
        self._bodies[name] = body

    def spend(self, steps: int) -> None:
        """Count steps of work. Raises Unsayable."""
        self.budget.spend(steps)

    def count(self, size: int) -> None:
        """Count rules and written-out repeats. Raises Unsayable."""
        self.spend(min(size, MAX_SIZE))
        self._size += size
        if self._size > MAX_SIZE:
            raise Unsayable(f"makes a grammar of more than {MAX_SIZE} parts; use fewer properties or smaller limits")

    def repeat(self, item: str, low: int, high: int | None) -> str:
        """``repeat``, or nothing where ``high`` is 0. A ``high`` beyond MAX_REPEATS becomes MAX_REPEATS. Raises
        Unsayable."""
        if low > MAX_REPEATS:
            raise Unsayable(f"asks for too many repeats; up to {MAX_REPEATS} are possible")
        if high is not None and high < low:
            raise Unsayable(f"asks for at least {low} and at most {high} repeats")
        if high is not None:
            high = min(high, MAX_REPEATS)
        self.count(max(low, high or 0))
        return "" if high == 0 else repeat(item, low, high)

    def listed(self, item: str, low: int, high: int | None) -> str:
        """``repeat`` with commas between the items. Raises Unsayable."""
        if high is not None and (high == 0 or high < low):
            return self.repeat(item, low, high)
        rest = self.repeat(f'( "," ws {item} )', max(0, low - 1), None if high is None else high - 1)
        # By a name of its own: llama.cpp counts the repeats in a group when the group is optional.
        return f"{item} {rest}" if low else f"{self.add(f'{item} {rest}')}?"

    def text(self, root: str) -> str:
        """The whole grammar. Rules stand before the rules that use them: llama.cpp allows fewer repeats of a rule that
        it does not know yet."""
        # A rule that was given up before it was defined matches nothing, and nothing refers to it.
        lines = [f"{name} ::= {body or NOTHING}" for name, body in self._bodies.items()]
        return "\n".join([JSON.strip(), *lines, f"root ::= {root}"])
