"""A text that is still being written, cut for speech: first a clause, then sentences.

The first piece is short, since its sound is what the listener waits for.
"""

from __future__ import annotations

import re

SENTENCE = re.compile(r"[.!?…。！？]++[\"”’')\]]*+(?=\s)|\n++")
CLAUSE = re.compile(r"[,;:.!?…、，；：。！？]++[\"”’')\]]*+(?=\s)|\s[–—-](?=\s)|\n++")
WIDE = re.compile(r"[。！？]")
SHORT_WORDS = re.compile(r"(?:\b(?:Mr|Mrs|Ms|Dr|Prof|St|vs|e\.g|i\.e|etc)|\b[A-Z]|\b[0-9]+)\.$")
"""Ends of texts that rarely end a sentence."""
SHORT_CHARS = 12
"""Characters before a mark that decide whether the mark is such an end."""
FIRST_CHARS = 12
"""Characters of a first clause at least: a single word would sound cut off."""
LONGEST = 240
"""Characters of a piece. One without any mark is cut at a space. No look reads further, so that no text costs more."""


class Clauses:
    """Cuts one answer. The pieces together are the text."""

    def __init__(self) -> None:
        self._held = ""
        self._first = True

    def feed(self, text: str) -> list[str]:
        """Pieces that are whole now."""
        self._held += text
        pieces = []
        while (end := self._end()) is not None:
            pieces.append(self._held[:end])
            self._held = self._held[end:]
            self._first = self._first and not pieces[-1].strip()
        return pieces

    def end(self) -> list[str]:
        """The rest."""
        rest, self._held = self._held, ""
        return [rest] if rest else []

    def _end(self) -> int | None:
        """The end of the next piece."""
        pattern, least = (CLAUSE, FIRST_CHARS) if self._first else (SENTENCE, 1)
        near = self._held[: LONGEST + 1]  # the last one may be the space behind a mark
        for found in pattern.finditer(near):
            end = min(found.end(), LONGEST)
            if end >= least and not SHORT_WORDS.search(near, max(0, end - SHORT_CHARS), end):
                return end
        if wide := WIDE.search(near, least):
            return min(wide.end(), LONGEST)
        if len(self._held) <= LONGEST:
            return None
        space = near.rfind(" ", 1, LONGEST)
        return space if space > 0 else LONGEST
