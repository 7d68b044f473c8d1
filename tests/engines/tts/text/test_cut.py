"""Cutting text: nothing is lost but spaces, no piece is longer than asked for, and clauses are kept where they fit."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from support.cases import each

from edgeserve.engines.tts.text.cut import MAX_SENTENCE, cut, speakable


@given(st.text("ab,;: —\n", max_size=200), st.integers(1, 50))
def test_nothing_but_spaces_is_lost(text: str, limit: int) -> None:
    pieces = list(cut(text, limit))
    assert "".join("".join(pieces).split()) == "".join(text.split())
    assert all(0 < len(piece) <= limit and piece == piece.strip() for piece in pieces)


@each(
    ("text", "pieces"),
    [
        ("", []),
        ("   ", []),
        ("one two", ["one two"]),
        ("one, two three four", ["one,", "two three", "four"]),
        ("one two three", ["one two", "three"]),
        ("aaaa bbbb c", ["aaaa bbbb", "c"]),
        ("a b c d e f", ["a b c d", "e f"]),
        ("onetwothreefour", ["onetwothre", "efour"]),
        ("one two, three", ["one two,", "three"]),
        ("0123456789 next", ["0123456789", "next"]),
    ],
)
def test_cut_after_a_clause_else_a_word_else_anywhere(text: str, pieces: list[str]) -> None:
    assert list(cut(text, 10)) == pieces


@given(st.text(max_size=300))
def test_ordinary_sentences_are_left_as_they_are(text: str) -> None:
    if all(len(word) <= 40 for word in text.split()):
        assert list(speakable(text)) == ([text.strip()] if text.strip() else [])


def test_long_words_are_parted() -> None:
    (word,) = speakable("x" * 100)
    assert [len(part) for part in word.split()] == [40, 40, 20]


def test_a_sentence_is_handed_on_in_bounded_parts() -> None:
    parts = list(speakable("word " * 1_000))
    assert len(parts) == 5
    assert max(map(len, parts)) <= MAX_SENTENCE
