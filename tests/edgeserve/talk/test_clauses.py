from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each

from edgeserve.talk import clauses
from edgeserve.talk.clauses import LONGEST, Clauses


def cut(*texts: str) -> list[str]:
    one = Clauses()
    return [piece for text in texts for piece in one.feed(text)] + one.end()


@each(
    ("text", "pieces"),
    [
        ("Yes, of course, I will. And then more.", ["Yes, of course,", " I will.", " And then more."]),
        ("Dr. Smith lives here, they say. Good.", ["Dr. Smith lives here,", " they say.", " Good."]),
        ("It costs 3.5 euros for one of them. Yes.", ["It costs 3.5 euros for one of them.", " Yes."]),
        ("Short", ["Short"]),
        ("", []),
        ("One line here\nAnother line", ["One line here\n", "Another line"]),
        ("今日はとても良い天気ですね、本当に。 はい。", ["今日はとても良い天気ですね、本当に。", " はい。"]),
    ],
)
def test_a_text_is_cut_where_a_voice_would_pause(text: str, pieces: list[str]) -> None:
    assert cut(text) == pieces


def test_the_first_clause_comes_before_the_sentence_ends() -> None:
    one = Clauses()
    assert one.feed("When it rains, ") == ["When it rains,"]
    assert one.feed("I stay inside, ") == []
    assert one.feed("and read. ") == [" I stay inside, and read."]


def test_a_text_without_marks_is_cut_at_a_space() -> None:
    pieces = cut("word " * 200)
    assert max(map(len, pieces)) <= LONGEST
    assert all(piece.split() == ["word"] * len(piece.split()) for piece in pieces)


MARKS = st.sampled_from(["A. ", "1", "1. ", "…", ".", ". ", "Mr. ", "e.g. ", "a,", "\n", "。", ")", '." ', "word "])


@given(st.lists(MARKS, min_size=1, max_size=4), st.integers(1, 400))
def test_no_piece_is_longer_than_the_longest(marks: list[str], count: int) -> None:
    text = "".join(marks) * count
    pieces = cut(text)
    assert "".join(pieces) == text
    assert max(map(len, pieces)) <= LONGEST


class Near:
    """A pattern that is never given more than a piece may be long."""

    def __init__(self, pattern: re.Pattern[str]) -> None:
        self._pattern = pattern

    def __getattr__(self, name: str) -> Callable[..., Any]:
        def look(text: str, *places: int) -> Any:
            assert len(text) <= LONGEST + 1
            return getattr(self._pattern, name)(text, *places)

        return look


@pytest.mark.parametrize("mark", ["A. ", "1. ", "1", "Mr. ", "...", '."', ",", "word ", "。"])
def test_no_look_goes_further_than_a_piece_may(monkeypatch: pytest.MonkeyPatch, mark: str) -> None:
    for name in ("SENTENCE", "CLAUSE", "SHORT_WORDS", "WIDE"):
        monkeypatch.setattr(clauses, name, Near(getattr(clauses, name)))
    assert "".join(cut(mark * 2000)) == mark * 2000


@given(st.lists(st.text(alphabet="ab.,!? \n。", max_size=30), max_size=20))
def test_nothing_is_lost_however_the_text_comes(texts: list[str]) -> None:
    assert "".join(cut(*texts)) == "".join(texts)
