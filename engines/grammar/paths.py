"""The number of ways in which the grammar of a regular expression reads one text.

llama.cpp follows each way through a token by itself and joins none of them. A token with a forbidden last character
costs one step for each way to read the characters before it. Measured: half a minute for two characters, where each of
300 parts is optional. This room counts the ways on the expression's positions (Glushkov 1961) before llama.cpp sees it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import field

from edgeserve.dataclass import dataclass
from edgeserve.engines.grammar.chars import Ranges
from edgeserve.engines.grammar.rules import Unsayable

LENGTH = 24
"""Characters of a token that count; repeats beyond them change no result. llama.cpp gets no longer token in one piece
(``llama/constraint.py``)."""
MAX_WORK = 400_000
"""Pairs of positions visited; each takes some tenths of a microsecond."""


@dataclass(frozen=True, slots=True)
class Shape:
    """A part of an expression.

    chars     character ranges of one position
    parts     sub-parts, one after the other; with ``choice`` alternatives
    low, high number of repeats (``high`` None: any number)
    """

    chars: tuple[tuple[int, int], ...] = ()
    parts: tuple[Shape, ...] = ()
    choice: bool = False
    low: int = 1
    high: int | None = 1


EMPTY = Shape()

Ends = tuple[list[int], list[int], bool]
"""Positions that may come first, positions that may come last, and whether the part may be empty."""


def most(shape: Shape) -> tuple[int, int]:
    """The most ways to read a text of LENGTH characters from any position, or a little more; and the pairs visited.

    Raises Unsayable when there are too many positions to count.
    """
    places = _Places()
    start = places.add(())
    places.join([start], places.ends(shape)[0])
    return places.most(), places.work


@dataclass(slots=True)
class _Places:
    chars: list[tuple[tuple[int, int], ...]] = field(default_factory=list)
    follow: list[dict[int, None]] = field(default_factory=list)
    work: int = 0

    def add(self, chars: tuple[tuple[int, int], ...]) -> int:
        self.chars.append(chars)
        self.follow.append({})
        return len(self.chars) - 1

    def spend(self, steps: int) -> None:
        self.work += steps
        if self.work > MAX_WORK:
            raise Unsayable("has too many places that may follow one another; use fewer optional parts and choices")

    def join(self, last: Sequence[int], first: Sequence[int]) -> None:
        self.spend(len(last) * len(first))
        for one in last:
            self.follow[one].update(dict.fromkeys(first))

    def ends(self, shape: Shape) -> Ends:
        """First and last positions of a repeated part. Each copy follows the one before; from the last required copy
        on, any may be the last."""
        sure = min(shape.low, LENGTH)
        count = max(1, sure) if shape.high is None else max(sure, min(shape.high, LENGTH))
        first: list[int] = []
        last: list[int] = []
        before: list[int] = []
        empty = True
        for number in range(count):
            begins, closes, nothing = self._once(shape)
            self.join(before, begins)
            first = first + begins if empty else first
            before = before + closes if nothing else closes
            last = last + closes if number >= sure else before
            empty = empty and nothing
        if shape.high is None:
            self.join(before, first)
        return first, last, empty or not sure

    def _once(self, shape: Shape) -> Ends:
        self.spend(1)
        if shape.chars:
            place = self.add(shape.chars)
            return [place], [place], False
        if not shape.choice:
            return self._row(map(self.ends, shape.parts))
        found = [self.ends(part) for part in shape.parts]
        begins = [place for one in found for place in one[0]]
        closes = [place for one in found for place in one[1]]
        return begins, closes, any(one[2] for one in found)

    def _row(self, ones: Iterable[Ends]) -> Ends:
        """First and last positions of parts, one after the other."""
        first: list[int] = []
        last: list[int] = []
        empty = True
        for begins, closes, nothing in ones:
            self.join(last, begins)
            first = first + begins if empty else first
            last = last + closes if nothing else closes
            self.spend(len(first) + len(last))
            empty = empty and nothing
        return first, last, empty

    def most(self) -> int:
        """The most ways: for each position the followers that take the same character, whatever comes next."""
        kinds = {chars: number for number, chars in enumerate(dict.fromkeys(self.chars))}
        ranges = sum(map(len, kinds))
        self.spend(ranges * ranges // 4)
        takes = _takers(list(kinds))
        of = [takes[kinds[chars]] for chars in self.chars]
        ways = [1] * len(self.chars)
        for _ in range(LENGTH):
            before, ways = ways, []
            for followers in self.follow:
                by_char: dict[int, int] = {}
                for one in followers:
                    self.spend(len(of[one]))
                    for char in of[one]:
                        by_char[char] = by_char.get(char, 0) + before[one]
                ways.append(max([1, *by_char.values()]))
            if ways == before:
                break
        return max(ways)


def _takers(kinds: Sequence[tuple[tuple[int, int], ...]]) -> list[list[int]]:
    """For each character set, the numbers of the characters that represent it.

    A representative is the start of a range in any set. Characters that belong to the same sets share one.
    """
    begins = sorted({low for chars in kinds for low, _ in chars})
    held: dict[frozenset[int], None] = {}
    for char in begins:
        held[frozenset(at for at, chars in enumerate(kinds) if any(low <= char <= high for low, high in chars))] = None
    return [[number for number, who in enumerate(held) if at in who] for at in range(len(kinds))]


def of_chars(ranges: Ranges) -> Shape:
    return Shape(chars=tuple(sorted((low, high) for low, high in ranges)))
