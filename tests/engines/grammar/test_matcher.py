"""Walks through grammars: parts of characters, bounded memory, and grammars that are read in very many ways."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.cases import each

from edgeserve.engines.grammar.gbnf import parsed
from edgeserve.engines.grammar.matcher import GARBAGE, Matcher
from edgeserve.engines.grammar.rules import Unsayable


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


@each("piece", [b"\xff", b"\xc0\x80", b"\xed\xa0\x80", b"a\xc3a", b"\xf4\x90"])
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


@pytest.mark.slow
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


@pytest.mark.parametrize("depth", [18, 24, 200])
def test_rules_that_double_take_bounded_memory(depth: int) -> None:
    """Each of them may be empty, and each way through them is a stack of its own: 2 to the power of ``depth``."""
    doubling = "\n".join(f"r{number} ::= r{number + 1} r{number + 1}" for number in range(depth))
    with pytest.raises(Unsayable, match="more than 200,000 places"):
        walk(f'root ::= r0 "a"\n{doubling}\nr{depth} ::= ""')


def test_ways_that_lead_to_the_same_place_count_as_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """``ways`` times ``ends`` of them were looked at, and none counted."""
    monkeypatch.setattr("edgeserve.engines.grammar.matcher.STEPS", 50_000)
    ways, ends = 1_000, 1_000
    with pytest.raises(Unsayable, match="too many steps"):
        walk("root ::= one" + "|one" * ways + "\none ::= " + "|" * ends)


def test_every_look_at_a_token_counts() -> None:
    matcher = walk('root ::= "a"')
    before = matcher._left
    for _ in range(100):
        assert not matcher.allows(b"b")
    assert matcher._left <= before - 100


def test_what_was_looked_at_is_not_kept_for_ever() -> None:
    matcher = walk("root ::= [^a]*")
    for code in range(0x4E00, 0x4E00 + GARBAGE + 1000):
        assert matcher.allows(chr(code).encode())
    assert len(matcher._known) <= GARBAGE + 1


@given(st.sets(st.integers(0x80, 0x10FFFF).filter(lambda code: not 0xD800 <= code <= 0xDFFF), min_size=1), st.data())
def test_the_beginning_of_a_character_is_allowed_where_one_of_its_ends_is(codes: set[int], data: st.DataObject) -> None:
    matcher = walk("root ::= [" + "".join(f"\\U{code:08X}" for code in codes) + "]")
    whole = chr(data.draw(st.sampled_from([*codes, 0x80, 0x7FF, 0x4E00, 0x10FFFF]))).encode()
    for length in range(1, len(whole)):
        begun = whole[:length]
        assert matcher.allows(begun) == any(chr(code).encode().startswith(begun) for code in codes)
