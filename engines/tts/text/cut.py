"""Text cut into pieces that a voice can say at once: at sentences, clauses, words, and at worst within a word."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator

from edgeserve.engines.tts.text import sentences

MAX_SENTENCE = 1_000
"""Most characters that the phonemizer reads at once. Its time and memory grow with the length, and a cancel waits."""

_CLAUSE = re.compile(r"[,;:—]\s+")
_LONG_WORD = re.compile(r"\S{40}(?=\S)")
"""Forty characters of a longer word. The phonemizer's time grows with the cube of a word's parts."""


def passages(text: str) -> Iterator[str]:
    """Sentences, and parts of sentences that are too long to be read at once."""
    for sentence in sentences.sentences(text):
        yield from cut(sentence, MAX_SENTENCE)


def parts(text: str, read: Callable[[str], str]) -> Iterator[str]:
    """The results of ``read`` for each passage, in parts of bounded length; an empty part for an empty result."""
    for passage in passages(text):
        words = read(passage)
        yield from speakable(words) if words.strip() else ("",)


def speakable(text: str) -> Iterator[str]:
    """The text in parts that the phonemizer reads in bounded time."""
    return cut(_LONG_WORD.sub(r"\g<0> ", text), MAX_SENTENCE)


def cut(text: str, limit: int) -> Iterator[str]:
    """Pieces of at most ``limit`` characters, each cut after its last clause, else between words.

    Text without clauses is cut evenly: a last word that is said alone sounds like another sentence.
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
    """Pieces of at most ``limit`` phonemes that have a sound; one empty piece where none has.

    Reading 1,000 characters takes up to a second, and the caller checks for a cancel after each piece.
    """
    # Punctuation alone has a rhythm, but no sound.
    pieces = [piece for piece in cut(phonemes, limit) if any(char.isalpha() for char in piece)]
    return iter(pieces or [""])


def _word_end(head: str, left: int, limit: int) -> int:
    """End of the first word after an even share of the remaining text, else of the last word before; 0 without one."""
    share = math.ceil(left / math.ceil(left / limit))
    return (head.find(" ", share) + 1) or (head.rfind(" ") + 1)
