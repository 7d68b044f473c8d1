"""Walks through grammars: parts of characters, bounded memory, and grammars that are read in very many ways."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from engines.grammar.gbnf import parsed
from engines.grammar.matcher import GARBAGE, Matcher
from engines.grammar.rules import Unsayable


def walk(grammar: str, text: bytes = b"") -> Matcher:
    matcher = Matcher(parsed(grammar))
    if text:
        assert matcher.allows(text)
        matcher.accept(text)
    return matcher


def test_tokens_may_cut_characters_anywhere() -> None:
    matcher = walk('root ::= "é" [🙂-🙃] "ü"?')
    for piece, other in ((b"\xc3", b"\xc4"), (b"\xa9\xf0", b"\xaa"), (b"\x9f", b"\x9e"), (b"\x99\x82", b"\x99\x84")):
        assert matcher.allows(piece)
        assert not matcher.allows(other)
        assert not matcher.may_end
        matcher.accept(piece)
    assert matcher.may_end
    assert not matcher.over
    assert not matcher.allows(b"\x80")
    assert not matcher.allows(b"")
    matcher.accept("ü".encode())
    assert matcher.over
    assert not matcher.allows(b"a")


@pytest.mark.parametrize("piece", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"a\xc3a", b"\xf4\x90"])
def test_bytes_that_are_no_text_are_refused(piece: bytes) -> None:
    assert not walk("root ::= .*").allows(piece)


def test_a_token_is_allowed_only_where_all_of_it_is() -> None:
    matcher = walk('root ::= "abc" | "abd" "e"', b"ab")
    assert [piece for piece in (b"c", b"d", b"de", b"cc", b"e", b"dee") if matcher.allows(piece)] == [b"c", b"d", b"de"]
    with pytest.raises(ValueError, match="does not allow"):
        matcher.accept(b"x")


@given(st.text(alphabet="ab", max_size=12))
def test_it_agrees_with_a_regular_expression(text: str) -> None:
    grammar, pattern = 'root ::= ("a" | "ab" | "b" "a"*){1,3} "b"?', r"(?:a|ab|ba*){1,3}b?"
    matcher = Matcher(parsed(grammar))
    taken = ""
    for char in text:
        if not matcher.allows(char.encode()):
            break
        matcher.accept(char.encode())
        taken += char
        assert matcher.may_end == bool(re.fullmatch(pattern, taken))
    if taken != text:
        assert not re.fullmatch(pattern, text)


def test_a_long_text_takes_no_more_memory() -> None:
    matcher = walk('root ::= ("(" root ")" | "a")*')
    for _ in range(2_000):
        matcher.accept(b"((a)aa)a")
    assert len(matcher._nodes) <= GARBAGE + 100
    for _ in range(500):
        matcher.accept(b"(")
    assert not matcher.may_end
    for _ in range(500):
        matcher.accept(b")")
    assert matcher.may_end


def test_a_grammar_that_is_read_in_too_many_ways_is_refused() -> None:
    doubling = 'root ::= "(" root ")" | "(" root "]" | "a"'
    matcher = walk(doubling, b"(" * 7)
    with pytest.raises(Unsayable, match="more than 1000 ways at once"):
        matcher.accept(b"(((")


def test_equal_ways_are_one() -> None:
    matcher = walk('root ::= (".?" | .? .? .?){1,100} "x"')
    for _ in range(90):
        matcher.accept(b"aa")
    assert matcher.allows(b"x")


def test_the_steps_of_an_answer_are_bounded() -> None:
    matcher = walk("root ::= " + " ".join('[a-c]? ("a" | "b")?' for _ in range(240)))
    matcher._left = 50_000
    with pytest.raises(Unsayable, match="too many steps"):
        matcher.allows(b"ab" * 40)
