"""Follows a text through a client's grammar, with a bounded number of steps.

A state is a set of stacks: the places that the next character may have. A stack is a node: a place, and the node to go
on with after the end of its rule. Equal nodes are one, so that a state never holds a stack twice. llama.cpp follows
grammars the same way, without bounds.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable

from edgeserve.engines.grammar.gbnf import Chars, Gbnf
from edgeserve.engines.grammar.rules import Unsayable

MAX_STACKS = 1_000
"""Stacks of one state."""
STEPS, STEPS_EACH = 5_000_000, 20_000
"""Steps of one answer, and more of them for each of its tokens. A step takes about a microsecond, in which no other
thread of the process runs Python.
"""
PAUSE_STEPS = 2_000
"""Steps between two pauses: some milliseconds."""
MAX_NODES = 200_000
"""Nodes of one answer, and places looked at for one character: some 50 MB."""
GARBAGE = 20_000
"""Nodes after which those that no stack needs any more are dropped."""
DONE = 0
"""The node after the end of the grammar."""
LEADS = ((0xC2, 0xDF, 2), (0xE0, 0xEF, 3), (0xF0, 0xF4, 4))
"""First bytes of characters in UTF-8, and the length of such a character."""

State = frozenset[int]


class Matcher:
    """One walk through a grammar. Methods raise Unsayable for a grammar that takes too much work.

    They call ``pause`` every ``PAUSE_STEPS`` steps; it may raise to end the walk.
    """

    def __init__(self, grammar: Gbnf, pause: Callable[[], None] = lambda: None) -> None:
        self._pause, self._until_pause = pause, PAUSE_STEPS
        self._places: list[int | tuple[tuple[int, ...], Chars] | None] = []
        """The element at each place: a rule, characters with their first ones, or None at the end of a sequence."""
        self._starts: list[list[int]] = []
        for rule in grammar.rules:
            self._starts.append([self._add(sequence) for sequence in rule])
        self._left = STEPS
        self._nodes: list[tuple[int, int]] = [(-1, DONE)]
        self._ids: dict[tuple[int, int], int] = {}
        self._pending = b""
        self._known: dict[str, State] = {}
        """States after texts from here, as far as they were looked at."""
        self._state = self._settled((start, DONE) for start in self._starts[grammar.root])

    def _add(self, sequence: Iterable[int | Chars]) -> int:
        start = len(self._places)
        for one in sequence:
            self._places.append(one if isinstance(one, int) else (tuple(low for low, _ in one), one))
        self._places.append(None)
        return start

    @property
    def may_end(self) -> bool:
        """Whether the text so far is a whole text of the grammar."""
        return not self._pending and DONE in self._state

    @property
    def over(self) -> bool:
        """Whether nothing can follow."""
        return self.may_end and len(self._state) == 1

    def allows(self, piece: bytes) -> bool:
        """Whether the text may continue with these bytes, of which the last may be a part of a character."""
        self._spend(1)
        return bool(piece) and self._after(piece) is not None

    def accept(self, piece: bytes) -> None:
        """Go on with bytes that ``allows`` has allowed."""
        after = self._after(piece)
        if after is None:
            raise ValueError("the grammar does not allow this text")
        self._state, self._pending = after
        self._known = {}
        self._left = min(STEPS, self._left + STEPS_EACH)
        if len(self._nodes) > GARBAGE:
            self._collect()

    def _after(self, piece: bytes) -> tuple[State, bytes] | None:
        """The state and the part of a character after these bytes. None where the grammar forbids them."""
        data = self._pending + piece
        try:
            text, rest = data.decode(), b""
        except UnicodeDecodeError as error:
            if error.end != len(data) or error.reason != "unexpected end of data":
                return None
            text, rest = data[: error.start].decode(), data[error.start :]
        state = self._walked(text)
        if not state or (rest and not self._takes(state, *_range(rest))):
            return None
        return state, rest

    def _walked(self, text: str) -> State:
        """The state after a text; empty where the grammar forbids it."""
        if len(self._known) > GARBAGE:
            self._known = {}
        state = self._state
        for length in range(1, len(text) + 1):
            begun = text[:length]
            found = self._known.get(begun)
            if found is None:
                code = ord(begun[-1])
                found = self._known[begun] = self._settled(self._following(state, code))
            state = found
            if not state:
                break
        return state

    def _following(self, state: State, code: int) -> Iterable[tuple[int, int]]:
        """Places after this character, each with the node to continue with."""
        self._spend(len(state))
        for node in state:
            place, after = self._nodes[node]
            chars = self._places[place] if place >= 0 else None
            if isinstance(chars, tuple) and _among(chars, code):
                yield place + 1, after

    def _takes(self, state: State, low: int, high: int) -> bool:
        """Whether the next character may be one from ``low`` to ``high``."""
        self._spend(len(state))
        for node in state:
            place = self._nodes[node][0]
            chars = self._places[place] if place >= 0 else None
            if isinstance(chars, tuple) and _among(chars, high, low):
                return True
        return False

    def _settled(self, places: Iterable[tuple[int, int]]) -> State:
        """The nodes at characters, or at the end, that these places lead to without a character."""
        waiting, seen, found = list(places), set[tuple[int, int]](), set[int]()
        while waiting:
            at = waiting.pop()
            self._spend(1)  # also for a place that was seen: many ways may lead there
            if at in seen:
                continue
            seen.add(at)
            if len(seen) > MAX_NODES:
                raise _crowded()
            place, after = at
            element = self._places[place]
            if isinstance(element, int):
                # At the end of a sequence, the rule ends with the outer one: a list does not make the stack grow.
                then = after if self._places[place + 1] is None else self._node(place + 1, after)
                waiting += ((start, then) for start in self._starts[element])
            elif element is not None:
                found.add(self._node(place, after))
            elif after == DONE:
                found.add(DONE)
            else:
                waiting.append(self._nodes[after])
            if len(found) > MAX_STACKS:
                raise Unsayable(f"the answer can be read in more than {MAX_STACKS} ways at once; write it more simply")
        return frozenset(found)

    def _node(self, place: int, after: int) -> int:
        node = self._ids.get((place, after))
        if node is None:
            if len(self._nodes) >= MAX_NODES:
                raise _crowded()
            node = self._ids[place, after] = len(self._nodes)
            self._nodes.append((place, after))
        return node

    def _spend(self, steps: int) -> None:
        self._left -= steps
        self._until_pause -= steps
        if self._until_pause < 0:
            self._until_pause = PAUSE_STEPS
            self._pause()
        if self._left < 0:
            raise Unsayable("the grammar takes too many steps to follow; write it more simply")

    def _collect(self) -> None:
        """Keep only the nodes of the stacks of now."""
        kept: dict[int, None] = {}
        for node in self._state:
            while node not in kept and node != DONE:
                kept[node] = None
                node = self._nodes[node][1]
        self._spend(len(kept))
        old, self._nodes, self._ids = self._nodes, [(-1, DONE)], {}
        new = {DONE: DONE}
        for node in sorted(kept):  # a node is younger than the one after it
            place, after = old[node]
            new[node] = self._node(place, new[after])
        self._state = frozenset(new[node] for node in self._state)


def _among(chars: tuple[tuple[int, ...], Chars], high: int, low: int | None = None) -> bool:
    """Whether the characters have ``high``, or any from ``low`` on to it."""
    at = bisect_right(chars[0], high) - 1
    return at >= 0 and (high if low is None else low) <= chars[1][at][1]


def _crowded() -> Unsayable:
    return Unsayable(f"the answer needs more than {MAX_NODES:,} places to be followed; write it more simply")


def _range(part: bytes) -> tuple[int, int]:
    """The first and the last character whose UTF-8 begins with these bytes."""
    length = next(size for low, high, size in LEADS if low <= part[0] <= high)
    bits = part[0] & (0xFF >> (length + 1))
    low = high = bits
    for at in range(1, length):
        given = part[at] & 0x3F if at < len(part) else None
        low = low << 6 | (given if given is not None else 0)
        high = high << 6 | (given if given is not None else 0x3F)
    least = (0x80, 0x800, 0x10000)[length - 2]
    return max(low, least), min(high, 0x10FFFF)
