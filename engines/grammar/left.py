"""Left recursion in a grammar: rules that may begin with themselves, so that following them would never end."""

from __future__ import annotations

from collections.abc import Sequence

from edgeserve.engines.grammar.rules import Unsayable

Rules = Sequence[Sequence[Sequence[object]]]
"""By number: alternatives, each a sequence of elements. An integer among the elements is the number of a rule."""


def check_left(rules: Rules) -> None:
    """Raise Unsayable where a rule may begin with itself: following it would never end."""
    empty = _empty(rules)
    done: set[int] = set()
    for root in range(len(rules)):
        under_way: dict[int, None] = {}
        path = [(root, iter(_firsts(rules, root, empty)))] if root not in done else []
        under_way[root] = None
        while path:
            number, children = path[-1]
            child = next(children, None)
            if child is None:
                path.pop()
                under_way.pop(number, None)
                done.add(number)
            elif child in under_way:
                raise Unsayable("a rule may begin with itself (left recursion), which never ends")
            elif child not in done:
                under_way[child] = None
                path.append((child, iter(_firsts(rules, child, empty))))


def _empty(rules: Rules) -> set[int]:
    """Rules that may be a text of no length."""
    open_parts: dict[int, list[list[int]]] = {}
    """By rule: the sequences that have it, each as its rule and the number of parts that are not known to be empty."""
    found: set[int] = set()
    waiting: list[int] = []
    for number, rule in enumerate(rules):
        for sequence in rule:
            parts = {one for one in sequence if isinstance(one, int)}
            if not sequence:
                waiting.append(number)
            elif all(isinstance(one, int) for one in sequence):
                counted = [number, len(parts)]
                for one in parts:
                    open_parts.setdefault(one, []).append(counted)
    while waiting:
        number = waiting.pop()
        if number in found:
            continue
        found.add(number)
        for counted in open_parts.get(number, ()):
            counted[1] -= 1
            if not counted[1]:
                waiting.append(counted[0])
    return found


def _firsts(rules: Rules, number: int, empty: set[int]) -> list[int]:
    """Rules that may come first in a rule."""
    found: dict[int, None] = {}
    for sequence in rules[number]:
        for one in sequence:
            if not isinstance(one, int):
                break
            found[one] = None
            if one not in empty:
                break
    return list(found)
