"""The pieces in which a prompt is read while answers are written.

Each piece makes the next token of those answers wait for one call of llama.cpp. Short pieces make more calls, and the
prompt takes longer. So a piece has as many tokens as the machine reads in ``GAP`` seconds.
"""

from __future__ import annotations

from collections import deque

from edgeserve.engines.llama.pace import median

GAP = 1.5
"""Seconds of a piece: so long do answers under way wait for their next token."""
GAP_AHEAD = 0.2
"""Seconds of a piece of a prompt that nobody waits for yet: so long does a request wait that comes meanwhile."""
TILE = 16
"""llama.cpp multiplies so many tokens at a time; of the others in a call it takes one after the other."""
FIRST = 192
"""Tokens of a piece before any call was measured."""
LEAST = 64
"""Tokens of a piece at least, and of a call whose time counts: a token of a smaller call takes longer."""
KEPT = 3
"""Latest calls whose median counts: other load on the machine makes single calls slow."""


class Pieces:
    """``most``: tokens of one call at most."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._seen: deque[float] = deque(maxlen=KEPT)

    def note(self, tokens: int, seconds: float) -> None:
        """Count a call that read a prompt. The time of a token grows with the prompt, so the latest calls count."""
        if tokens >= LEAST:
            self._seen.append(seconds / tokens)

    def room(self, answers: int) -> int:
        """Tokens of the next call, with one of each answer: whole tiles, as long as the prompt continues."""
        return min(self._most, (self.length + answers) // TILE * TILE)

    @property
    def room_ahead(self) -> int:
        """Tokens of the next call for prompts alone that nobody waits for yet."""
        return min(self._most, self._within(GAP_AHEAD) // TILE * TILE)

    @property
    def length(self) -> int:
        """Tokens of the next piece, or a few more."""
        return self._within(GAP)

    def _within(self, gap: float) -> int:
        """Tokens that are read in so many seconds, within the bounds of a piece."""
        if not self._seen:
            return min(FIRST, self._most)
        slow = max(median(self._seen), gap / self._most)
        return min(self._most, max(LEAST, int(gap / slow)))
