"""Text cut to what a voice can say at once: sentences, then clauses, words, and at worst within a word."""

from __future__ import annotations

import re
from collections.abc import Iterator

MAX_SENTENCE = 1_000
"""Characters handed to the phonemizer at once; what it needs grows with the length, and cancelling waits for it."""

_CLAUSE = re.compile(r"[,;:—]\s+")
_LONG_WORD = re.compile(r"\S{40}(?=\S)")
"""The phonemizer's time grows with the cube of a word's parts: 106 s for "ab-" 400 times, 9 ms for a part of 40."""


def speakable(text: str) -> Iterator[str]:
    """A text as parts that the phonemizer reads in bounded time."""
    return cut(_LONG_WORD.sub(r"\g<0> ", text), MAX_SENTENCE)


def cut(text: str, limit: int) -> Iterator[str]:
    """Pieces of at most ``limit`` characters, cut after the last clause within it, else after the last word."""
    start = 0
    while len(text) - start > limit:
        head = text[start : start + limit + 1]
        clauses = [match.end() for match in _CLAUSE.finditer(head)]
        at = min(clauses[-1] if clauses else head.rfind(" ") + 1 or limit, limit)
        if piece := head[:at].strip():
            yield piece
        start += at
    if piece := text[start:].strip():
        yield piece
