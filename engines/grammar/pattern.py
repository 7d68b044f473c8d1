"""Regular expressions as GBNF, for the inside of a JSON string.

The grammar's texts match the expression from their first to their last character, in Python's reading and in ECMA
262's. Where the two differ (``\\w`` beyond ASCII, say), only their intersection counts. A grammar cannot express
look-around, references and word borders; the reader refuses them.
"""

from __future__ import annotations

import dataclasses
import functools
import re

from edgeserve.dataclass import dataclass
from edgeserve.engines.grammar import paths
from edgeserve.engines.grammar.chars import ALL, ASCII, PLAIN, Ranges, one_of, without
from edgeserve.engines.grammar.paths import EMPTY, Shape
from edgeserve.engines.grammar.rules import MAX_REPEATS, MAX_SIZE, Budget, Unsayable, either, literal, repeat

CATEGORIES: dict[str, Ranges] = {
    "d": [(0x30, 0x39)],
    "w": [(0x30, 0x39), (0x41, 0x5A), (0x5F, 0x5F), (0x61, 0x7A)],
    "s": [(0x20, 0x20)],
}
CONTROLS = {"n": "\n", "r": "\r", "t": "\t", "f": "\f"}
ESCAPED = {'"': '\\"', "\\": "\\\\", "\n": "\\n", "\r": "\\r", "\t": "\\t", "\f": "\\f"}
"""JSON's spelling of characters that cannot stand for themselves."""

UNPLAIN = without([(0, 0x10FFFF)], PLAIN)
MAX_SPREAD = 512
"""Lengths times repeats: positions that a grammar may be at together. llama.cpp visits each for every token."""

MAX_LIVE = 500
"""Positions that the grammar of one pattern may be at together.

The time of a token grows with their square: 1 s for one of 80 characters at 1,000 positions.
"""
PATHS = 100
"""Ways through one token that cost as much as one position."""
MAX_TEXT = 8 * MAX_SIZE
"""Characters of its grammar; a part of a grammar counts for eight."""
STEPS, PAIRS = 4, 8
"""Steps of work for each character of an expression, and pairs of positions that are one step."""
MAX_NESTING = 40
"""Groups in groups: llama.cpp reads them on its stack, and this reader on Python's."""

COUNTS = re.compile(r"\{([0-9]{1,6})(,?)([0-9]{0,6})\}")
CODE = re.compile(r"x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})")


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a grammar.

    text    its GBNF
    low     characters at least
    high    characters at most; None: any number
    places  positions: characters and repeats of them
    live    positions that a text may be at together
    shape   the same part for counting its ways
    work    pairs of positions that were visited to count them
    """

    text: str
    low: int
    high: int | None
    places: int = 1
    live: int = 1
    shape: Shape = EMPTY
    work: int = 0

    @property
    def spread(self) -> int | None:
        """Number of further lengths, beyond the first."""
        return None if self.high is None else self.high - self.low


def convert(source: str, budget: Budget) -> Piece:
    """Convert an expression, on ``budget`` the first time. Raises Unsayable for constructs that a grammar cannot
    express."""
    piece = budget.made.get(source)
    if not isinstance(piece, Piece):
        budget.spend(STEPS * len(source))
        piece = budget.made[source] = _converted(source)
        budget.spend(piece.work // PAIRS)
    return piece


def read(source: str) -> Piece:
    """An expression whose ways are not counted. Raises Unsayable."""
    return _Reader(source).whole()


@functools.lru_cache(maxsize=64)
def _converted(source: str) -> Piece:
    """Without its shape, which takes more memory than all else."""
    piece = read(source)
    if len(piece.text) > MAX_TEXT:
        raise Unsayable(f"makes a grammar of more than {MAX_TEXT} characters; use smaller limits")
    ways, work = paths.most(piece.shape)
    piece = dataclasses.replace(piece, live=max(piece.live, ways // PATHS), shape=EMPTY, work=work)
    if piece.live > MAX_LIVE:
        raise Unsayable(
            f"can be read in {piece.live} ways at once; up to {MAX_LIVE} are possible; make fewer parts optional"
        )
    return piece


class _Reader:
    def __init__(self, source: str) -> None:
        self._source = source
        self._at = 0
        self._repeats = 0
        self._nesting = 0

    def whole(self) -> Piece:
        piece = self._choices(top=True)
        if self._at < len(self._source):
            raise Unsayable(f"has a ) too many at character {self._at + 1}")
        return piece

    def _next(self) -> str:
        return self._source[self._at : self._at + 1]

    def _takes(self, text: str) -> bool:
        found = self._source.startswith(text, self._at)
        self._at += len(text) * found
        return found

    def _choices(self, *, top: bool) -> Piece:
        branches = [self._sequence(top=top)]
        while self._takes("|"):
            branches.append(self._sequence(top=top))
        highs = [one.high for one in branches]
        high = None if None in highs else max(one for one in highs if one is not None)
        places, live = sum(one.places for one in branches), sum(one.live for one in branches)
        shape = Shape(parts=tuple(one.shape for one in branches), choice=True)
        return Piece(
            either(*(one.text for one in branches)), min(one.low for one in branches), high, places, live, shape
        )

    def _sequence(self, *, top: bool) -> Piece:
        pieces: list[Piece] = []
        if top:
            self._takes("^")
        while (char := self._next()) and char not in "|)":
            if top and self._takes("$"):
                if self._next() not in ("", "|"):
                    raise Unsayable("has a $ before its end")
                break
            pieces.append(self._repeated(self._atom()))
        return _joined(pieces)

    def _repeated(self, piece: Piece) -> Piece:
        low, high = self._counts()
        if (low, high) == (1, 1):
            return piece
        if self._next() in ("+", "*", "?", "{") and not self._takes("?"):
            raise Unsayable(f"repeats a repetition at character {self._at + 1}")
        if high is None and piece.low == 0:
            raise Unsayable("repeats without end what may be empty")
        self._repeats += max(low, high or 0)
        if self._repeats > MAX_REPEATS or high == 0 or (high is not None and low > high):
            raise Unsayable(f"repeats {low} to {high} times; up to {MAX_REPEATS} in all are possible, and at least one")
        if high and piece.high is not None and (piece.high - piece.low) * high > MAX_SPREAD:
            raise Unsayable("repeats too often what may be of many lengths; name a separator or lower the limits")
        most = None if high is None or piece.high is None else piece.high * high
        places, live = piece.places * max(low, high or 1), piece.live + 1
        if piece.spread != 0:  # each repeat may have begun at several places
            live = places if piece.spread is None else min(places, live * (piece.spread + 1) * max(low, high or 1))
        shape = Shape(parts=(piece.shape,), low=low, high=high)
        return Piece(repeat(f"( {piece.text} )", low, high), piece.low * low, most, places, live, shape)

    def _counts(self) -> tuple[int, int | None]:
        for sign, counts in {"*": (0, None), "+": (1, None), "?": (0, 1)}.items():
            if self._takes(sign):
                return counts
        found = COUNTS.match(self._source, self._at)
        if not found:
            return 1, 1
        self._at = found.end()
        low = int(found[1])
        return (low, low) if not found[2] else (low, int(found[3]) if found[3] else None)

    def _atom(self) -> Piece:
        start = self._at
        char = self._source[self._at]
        self._at += 1
        if char == "(":
            return self._group()
        if char == "[":
            return _set(self._class())
        if char == ".":
            return _set(ALL)
        if char == "\\":
            return _set(self._escape()[0])
        if char in "^$*+?" or (char == "{" and self._next() in (",", *"0123456789")):
            raise Unsayable(f"has a {char} at character {start + 1} that a grammar cannot say")
        return _set([(ord(char), ord(char))])

    def _group(self) -> Piece:
        if self._takes("?") and not self._takes(":"):
            name = re.compile(r"P?<[A-Za-z_]\w*>").match(self._source, self._at)
            if not name:
                raise Unsayable(f"looks around or sets flags at character {self._at}, which a grammar cannot do")
            self._at = name.end()
        self._nesting += 1
        if self._nesting > MAX_NESTING:
            raise Unsayable(f"nests groups more than {MAX_NESTING} levels deep")
        piece = self._choices(top=False)
        self._nesting -= 1
        if not self._takes(")"):
            raise Unsayable("has a ( that is not closed")
        return piece

    def _escape(self) -> tuple[Ranges, bool]:
        """The characters of an escape, and whether it is a class such as \\d."""
        char = self._next()
        if code := CODE.match(self._source, self._at):
            self._at = code.end()
            value = int(code[1] or code[2], 16)
            return [(value, value)], False
        self._at += 1
        if char.lower() in CATEGORIES:
            ranges = CATEGORIES[char.lower()]
            return (ranges if char.islower() else without(ASCII, ranges)), True
        if not char or char.isalnum():
            if char not in CONTROLS:
                raise Unsayable(f"has \\{char}, which a grammar cannot say")
            char = CONTROLS[char]
        return [(ord(char), ord(char))], False

    def _class(self) -> Ranges:
        negated, kinds = self._takes("^"), False
        ranges: Ranges = []
        if self._next() == "]":
            raise Unsayable("has a set of characters that begins with ]")
        while not self._takes("]"):
            first, kind = self._member()
            kinds = kinds or kind
            if self._next() == "-" and self._source[self._at + 1 : self._at + 2] not in ("]", ""):
                self._at += 1
                last, other = self._member()
                if kind or other or last[0][0] < first[0][0]:
                    raise Unsayable(f"has a range without an order at character {self._at}")
                first = [(first[0][0], last[0][0])]
            ranges += first
        return without(ASCII if kinds else ALL, ranges) if negated else ranges

    def _member(self) -> tuple[Ranges, bool]:
        char = self._next()
        if not char:
            raise Unsayable("has a [ that is not closed")
        self._at += 1
        return self._escape() if char == "\\" else ([(ord(char), ord(char))], False)


def _joined(pieces: list[Piece]) -> Piece:
    """Pieces one after the other. Once a piece has several lengths, a text may be at positions of several pieces."""
    live, shared, begun = 1, 0, 1
    endless = False
    for piece in pieces:
        if begun == 1 and piece.spread == 0:
            live = max(live, piece.live)
        else:
            shared += piece.places if endless else min(piece.places, piece.live * begun)
        endless = endless or piece.high is None
        begun = min(begun * (2 if piece.spread is None else piece.spread + 1), MAX_REPEATS)
    live = max(live, shared + 1)
    high = None if endless else sum(piece.high or 0 for piece in pieces)
    text = " ".join(piece.text for piece in pieces if piece.text) or '""'
    shape = Shape(parts=tuple(piece.shape for piece in pieces))
    return Piece(text, sum(piece.low for piece in pieces), high, sum(piece.places for piece in pieces), live, shape)


def _set(ranges: Ranges) -> Piece:
    """One of these characters, as a JSON string spells it."""
    choices = []
    if plain := without(ranges, UNPLAIN):
        choices.append(one_of(plain))
    for char, written in ESCAPED.items():
        if any(low <= ord(char) <= high for low, high in ranges):
            choices.append(literal(written))
    if not choices:
        raise Unsayable("asks for a character that cannot be said")
    return Piece(either(*choices), 1, 1, shape=paths.of_chars(ranges))
