from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeserve.talk.clauses import LONGEST, Clauses


def cut(*texts: str) -> list[str]:
    one = Clauses()
    return [piece for text in texts for piece in one.feed(text)] + one.end()


@pytest.mark.parametrize(
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


@given(st.lists(st.text(alphabet="ab.,!? \n。", max_size=30), max_size=20))
def test_nothing_is_lost_however_the_text_comes(texts: list[str]) -> None:
    assert "".join(cut(*texts)) == "".join(texts)
