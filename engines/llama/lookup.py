"""Finds earlier occurrences of the latest tokens of an answer: their continuation is a guess at the next tokens.

Prompt lookup decoding (Saxena, 2023). Rewriting, extraction and edits of code repeat long runs of the prompt.
"""

from __future__ import annotations

import array
from collections.abc import Sequence

SHORTEST, LONGEST = 2, 3
"""Tokens of the runs to look for: the longer first."""
NEAR = 8
"""Tokens behind a change among which the source may go on."""
PATIENCE = 4
"""Tokens of a change at most. After them the source of the earlier run is given up."""
FAR = 16_384
"""Tokens to search back. A search of so many takes about 50 µs."""
WIDTH = 4
"""Bytes of a token in the searched text."""


class Lookup:
    """The tokens of a prompt and of its answer so far.

    ``matched``: latest tokens that also stand before the guess, from SHORTEST on. Fewer: the answer changed a token of
    its source, or left some out, and the guess continues that source. 0 without a guess, too.
    """

    def __init__(self, tokens: Sequence[int]) -> None:
        self._tokens = list(tokens)
        self._text = bytearray(array.array("i", self._tokens).tobytes())
        self._next = 0
        """Position of the first guessed token."""
        self.matched = 0
        self._broken = self._since = 0
        """Position at which the answer left its source; 0 without one. Tokens that came since."""
        self._find()

    def add(self, token: int) -> None:
        """Note the next token. An occurrence that continues alike stays the source of guesses."""
        follows = self._next > 0 and self._tokens[self._next] == token
        self._tokens.append(token)
        self._text += token.to_bytes(WIDTH, "little")
        if follows:
            self._next += 1
            self.matched += 1
            return
        if self.matched >= SHORTEST:
            self._broken, self._since = self._next, 0
        else:
            self._since += 1
        self._find()
        if not self._next and self._broken and self._since <= PATIENCE:
            self._resume(token)

    def guess(self, most: int) -> Sequence[int]:
        """At most ``most`` tokens that may come next."""
        return self._tokens[self._next : self._next + most] if self._next else ()

    def _find(self) -> None:
        """Find the latest earlier occurrence of the last tokens."""
        self._next = self.matched = 0
        for length in range(min(LONGEST, len(self._tokens) - 1), SHORTEST - 1, -1):
            if at := self._occurrence(length):
                self._next, self.matched = at, length
                return

    def _resume(self, token: int) -> None:
        """Continue the source of the latest run behind ``token``, or behind the token in whose place it came."""
        at, last = self._broken, len(self._tokens) - 1
        near = self._tokens[at : min(at + NEAR, last)]
        if token in near:
            self._next, self.matched = at + near.index(token) + 1, 1
        elif not self._since and at + 1 < last:
            self._next = at + 1

    def _occurrence(self, length: int) -> int:
        """Position after the latest earlier occurrence of the last ``length`` tokens; 0 without one."""
        text, end = self._text, len(self._text) - 1
        run, first = bytes(text[-length * WIDTH :]), max(0, len(text) - FAR * WIDTH)
        while (at := text.rfind(run, first, end)) >= 0:
            if at % WIDTH == 0:
                return at // WIDTH + length
            end = at + len(run) - 1  # bytes of two tokens: look further back
        return 0
