"""Text cut to what a voice can say at once: sentences, then clauses, words, and at worst within a word."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

from engines.tts.text import sentences

MAX_SENTENCE = 1_000
"""Characters handed to the phonemizer at once; what it needs grows with the length, and cancelling waits for it."""

_CLAUSE = re.compile(r"[,;:—]\s+")
_LONG_WORD = re.compile(r"\S{40}(?=\S)")
"""The phonemizer's time grows with the cube of a word's parts: 106 s for "ab-" 400 times, 9 ms for a part of 40."""


def parts(text: str, read: Callable[[str], str]) -> Iterator[str]:
    """Sentence by sentence what ``read`` makes of it, in parts of bounded length; an empty one where that is nothing.

    A sentence without an end is cut before it is read as well.
    """
    for sentence in sentences.sentences(text):
        for part in cut(sentence, MAX_SENTENCE):
            words = read(part)
            yield from speakable(words) if words.strip() else ("",)


def speakable(text: str) -> Iterator[str]:
    """A text as parts that the phonemizer reads in bounded time."""
    return cut(_LONG_WORD.sub(r"\g<0> ", text), MAX_SENTENCE)


def cut(text: str, limit: int) -> Iterator[str]:
    """Pieces of at most ``limit`` characters, cut after the last clause within it, else between words.

    What has no clauses is cut evenly: a last word said by itself sounds like another sentence.
    """
    start = 0
    while len(text) - start > limit:
        head = text[start : start + limit + 1]
        clauses = [match.end() for match in _CLAUSE.finditer(head)]
        at = min(clauses[-1] if clauses else _word_end(head, len(text) - start, limit) or limit, limit)
        if piece := head[:at].strip():
            yield piece
        start += at
    if piece := text[start:].strip():
        yield piece


def sounding(phonemes: str, limit: int) -> Iterator[str]:
    """Pieces of at most ``limit`` phonemes, or an empty one where all of them say nothing.

    Reading 1,000 characters takes up to a second, so their reader must hear of each.
    """
    # Punctuation alone has a rhythm, but says nothing.
    pieces = [piece for piece in cut(phonemes, limit) if any(char.isalpha() for char in piece)]
    return iter(pieces or [""])


def _word_end(head: str, left: int, limit: int) -> int:
    """Where the first word ends after an even share of what is left, or the last before; 0 without any."""
    share = math.ceil(left / math.ceil(left / limit))
    return (head.find(" ", share) + 1) or (head.rfind(" ") + 1)
