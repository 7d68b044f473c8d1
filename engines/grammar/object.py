"""The inside of a JSON object as GBNF: members in order, commas only between members that are present."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from edgeserve.dataclass import dataclass
from edgeserve.engines.grammar.chars import PLAIN, one_of, without
from edgeserve.engines.grammar.rules import Rules, either, literal

MAX_SHARED = 48
"""Characters of a declared name that another key may begin with: each takes a rule and a call on Python's stack."""


@dataclass(frozen=True, slots=True)
class Member:
    """One member; ``text`` is its key, colon and value."""

    text: str
    required: bool


def body(rules: Rules, members: Sequence[Member], other: str = "", low: int = 0, high: int | None = 0) -> str:
    """An object of these members, then ``low`` to ``high`` ``other`` ones (None: any number). Raises Unsayable."""
    start, after = rules.listed(other, low, high), rules.repeat(f'( "," ws {other} )', low, high)
    # From the last member to the first: what may come when nothing stands before (start), and when something does.
    for member in reversed(members):
        opening = f"{member.text} {after}"
        following = f'( "," ws {member.text} )'
        if member.required:
            start, after = opening, rules.add(f"{following} {after}")
        else:
            start = rules.add(either(opening, start) if start.strip() else f"{rules.add(opening)}?")
            after = rules.add(f"{following}? {after}")
    return f'"{{" {start} "}}"'


def other_key(rules: Rules, names: Iterable[str]) -> str:
    """A key that is none of ``names``, written without escapes. Raises Unsayable."""
    return rf'"\"" {_unlike(rules, set(names))} "\""'


def _unlike(rules: Rules, names: set[str], depth: int = 0) -> str:
    """Text that is none of ``names``: it differs at some character, ends earlier or continues longer."""
    first = sorted({name[0] for name in names if name and any(low <= ord(name[0]) <= high for low, high in PLAIN)})
    if not first:
        return "plain+" if "" in names else "plain*"
    rules.spend(len(names) + len(first))
    choices = [f"{one_of(without(PLAIN, [(ord(char), ord(char)) for char in first]))} plain*"]
    for char in first if depth < MAX_SHARED else ():
        rest = {name[1:] for name in names if name.startswith(char)}
        choices.append(f"{literal(char)} {_unlike(rules, rest, depth + 1)}")
    if "" not in names:
        choices.append('""')
    return rules.add(either(*choices))
