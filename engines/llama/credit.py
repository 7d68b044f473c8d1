"""Bounds the time that drafts lose, whatever the texts: an answer drafts only what it, or its engine, can pay.

Times are in calls of one token. The worst of a draft is that all its guesses are wrong. Its answer must have shown
before that such drafts gain, with guesses that were not decoded: to compare these with what comes costs nothing. And
the loss must be covered by gains of the same answer, or by the purse of the engine.

So the losses of all answers are bounded. They are at most ``FIRST`` calls, a share ``SAVED`` of the time without
drafts, and a share ``GIVEN`` of the gains of other answers.
"""

from __future__ import annotations

FIRST = 16.0
"""Calls in the purse of a new engine."""
MOST = 64.0
"""Calls in the purse at most."""
SAVED = 0.01
"""Share of each call without a draft that goes to the purse, and counts for its answer."""
GIVEN = 0.1
"""Share of an answer's gain that the purse holds for others."""
START = 2.0
"""Calls that a draft behind a long match, which is rare in free text, may lose beyond what its answer has shown."""
SHOWN = 12.0
"""Calls at most that an answer has shown: a text that changes is noticed soon."""


class Purse:
    """The time that an engine's answers may still lose. ``left``: in calls of one token."""

    def __init__(self) -> None:
        self.left = FIRST

    def add(self, calls: float) -> None:
        """Put in, or take out."""
        self.left = min(MOST, self.left + calls)


class Credit:
    """The account of one answer."""

    def __init__(self, purse: Purse) -> None:
        self._purse = purse
        self._gained = self._shown = 0.0
        """Time gained by drafts; that of drafts and of guesses that might have been drafts, lately."""

    @property
    def cover(self) -> float:
        """The most that a draft may lose."""
        left = self._purse.left
        return min(left / GIVEN, left + (1 - GIVEN) * max(0.0, self._gained))  # leaves the purse no debt

    def limit(self, *, long: bool) -> float:
        """The most that a draft from the text may lose; ``long``: behind a long match."""
        return max(0.0, min(self._shown + START * long, self.cover))

    def plain(self) -> None:
        """Count a call without a draft."""
        self._purse.add(SAVED)
        self.show(SAVED)

    def show(self, gain: float) -> None:
        """Count guesses that would have gained so much as a draft."""
        self._shown = min(self._shown + gain, SHOWN)

    def count(self, gain: float) -> None:
        """Count a draft that gained so much; below 0: lost."""
        before, self._gained = self._gained, self._gained + gain
        self._purse.add(_given(self._gained) - _given(before))
        self.show(gain)


def _given(gained: float) -> float:
    """The part of an answer's gain that is in the purse; a loss was taken from there as a whole."""
    return GIVEN * gained if gained > 0 else gained
