"""Chances of guessed tokens by the kind of the guess, learned from all guesses: drafted or not, what comes judges them.

Each answer breaks its runs as often as others do, times a factor of its own. So a few guesses of one kind teach an
answer about all kinds. A rewritten letter follows its prompt for long, an extract for some tokens at a time.
"""

from __future__ import annotations

FIRST = (0.4, 0.55, 0.8, 0.9, 0.95, 0.6, 0.7, 0.6, 0.5, 0.9, 0.7)
"""Chance of a guessed token before any guess, by kind:

- matches of 2, 3, 4 to 7, 8 to 15, and more tokens
- matches of 2 and of 3 tokens in an answer that copies
- a run that continues behind a changed token, and behind a gap
- guesses of a grammar, and of a draft model
"""
KINDS = len(FIRST)
TWO, LONGER, COPYING, RESUMED, FORCED, DRAFTED = 0, 2, 5, 7, KINDS - 2, KINDS - 1
LONG = 4
"""Tokens of a match from which an answer copies."""
FIRST_WEIGHT = 4.0
"""Guesses that the first chance counts as."""
PRIOR = 4.0
"""Breaks of the engine's other answers that count as much in a new answer."""
REMEMBERED = 64
"""Guesses of a kind that count in full; older ones count half."""
SURE = 0.98
"""Chance of a guess at most."""


class Chances:
    """Shares of guesses that came true in all answers of an engine, by kind."""

    def __init__(self) -> None:
        self._tried, self._right = [0.0] * KINDS, [0.0] * KINDS

    def note(self, kind: int, tried: int, right: int) -> None:
        """Count guesses."""
        if self._tried[kind] >= REMEMBERED:
            self.fade(kind, 0.5)
        self._tried[kind] += tried
        self._right[kind] += right

    def fade(self, kind: int, by: float) -> None:
        """Count earlier guesses of a kind less."""
        self._tried[kind] *= by
        self._right[kind] *= by

    def of(self, kind: int) -> float:
        """Chance of a guessed token, at most SURE."""
        right = self._right[kind] + FIRST_WEIGHT * FIRST[kind]
        return min(SURE, right / (self._tried[kind] + FIRST_WEIGHT))


class OwnChances:
    """The chances of one answer. ``engine``: those of all answers, which learn from this one too."""

    def __init__(self, engine: Chances) -> None:
        self._engine = engine
        self._wrong, self._expected = [0.0] * 3, [0.0] * 3
        """Wrong guesses by their source, and those that the chances of all answers made expect."""

    def note(self, kind: int, tried: int, right: int) -> None:
        """Count guesses here and in the engine."""
        source = _source(kind)
        self._wrong[source] += tried - right
        self._expected[source] += tried * (1 - self._engine.of(kind))
        self._engine.note(kind, tried, right)

    def of(self, kind: int) -> float:
        """Chance of a guessed token, at most SURE."""
        source = _source(kind)
        factor = (PRIOR + self._wrong[source]) / (PRIOR + self._expected[source])
        return min(SURE, max(0.0, 1 - factor * (1 - self._engine.of(kind))))


def _source(kind: int) -> int:
    """0: the text; 1: a grammar; 2: a draft model."""
    return max(0, kind - FORCED + 1)


def kind_of(matched: int, copying: bool) -> int:
    """The kind of a guess from the text.

    ``matched``: tokens that also stand before the guess; fewer than 2 behind a change. ``copying``: the answer had a
    match of LONG tokens or more just before.
    """
    if matched < 2:
        return RESUMED + matched
    if matched < LONG:
        return matched - 2 + (COPYING if copying else TWO)
    return LONGER + min(matched.bit_length() - LONG.bit_length(), COPYING - LONGER - 1)
