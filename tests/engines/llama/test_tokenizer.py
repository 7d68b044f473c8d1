"""Texts into tokens, no further than they may go, on vocabularies that count what they are given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.examples import examples

from edgeserve.engines.llama import grammar
from edgeserve.engines.llama.prepare import Prepared, prepare_chat
from edgeserve.engines.llama.template import ChatTemplate
from edgeserve.engines.llama.tokenizer import LEAST_LONGEST, LONGEST_RUN, PIECE, SLACK, Tokenizer, TooLong, pieces
from edgeserve.errors import ContextOverflow, InvalidRequest
from edgeserve.messages import ChatRequest, ImagePart, Message, TextPart

WORD = 5
"""Characters in a token of these vocabularies."""


class Words:
    """A token for every five bytes of each word with the space before it."""

    def __init__(self, *, joins: bool = True, longest: int = 20) -> None:
        self.joins = joins
        self.seen = 0
        self._longest = longest

    def split(self, data: bytes, room: int, *, add_special: bool, parse_special: bool = True) -> list[int] | int:
        self.seen += len(data)
        tokens = [1] if add_special else []
        for number, word in enumerate(data.decode().split(" ")):
            size = len(word) + (number > 0)
            tokens += [size] * -(-size // WORD)
        tokens += [2] if add_special else []
        return tokens if len(tokens) <= room else len(tokens)

    def bos_eos(self) -> tuple[list[int], list[int]]:
        return [1], [2]

    def longest(self) -> int:
        return self._longest


def test_a_cut_text_keeps_the_first_and_the_last_token() -> None:
    for joins in (True, False):
        tokenizer = Tokenizer(Words(joins=joins))
        assert tokenizer.cut("abcd efgh ijkl", 4) == [1, 4, 5, 2]
        assert tokenizer.cut("abcd", 4) == tokenizer.tokenize("abcd", add_special=True)
        assert tokenizer.cut("abcd", 1) == [1, 2]


TEXTS = some.lists(some.text("abcde.é", max_size=9), max_size=3000).map(" ".join)


@examples(60)
@given(TEXTS, some.integers(1, 40), some.booleans(), some.booleans())
def test_the_tokens_of_pieces_are_those_of_the_whole(text: str, times: int, add_special: bool, joins: bool) -> None:
    text = " ".join([text] * times)
    whole = Words().split(text.encode(), 10**9, add_special=add_special)
    assert Tokenizer(Words(joins=joins)).tokenize(text, add_special=add_special) == whole


@given(some.text(max_size=3 * PIECE), some.integers(1, 9))
def test_pieces_are_short_and_make_the_text(text: str, times: int) -> None:
    made = list(pieces(text * times))
    assert "".join(made) == text * times
    assert all(0 < len(one) <= PIECE for one in made[:-1])
    assert len(made[-1]) <= PIECE


@examples(40)
@given(some.sampled_from(["a", "ab ", "word, ", "\n", "東京"]), some.integers(0, 400_000), some.integers(1, 3000))
@pytest.mark.parametrize("joins", [True, False])
def test_nothing_is_tokenised_beyond_what_may_be(joins: bool, unit: str, length: int, most: int) -> None:
    text = (unit * (length // len(unit) + 1))[:length]
    words = Words(joins=joins)
    tokenizer = Tokenizer(words)
    real = len(Words().split(text.encode(), 10**9, add_special=False))  # type: ignore[arg-type]
    torn = len(list(pieces(text))) if joins else 0  # words longer than a piece are cut
    refused = made = None
    try:
        made = len(tokenizer.tokenize(text, add_special=False, most=most))
    except TooLong as error:
        refused = error
    assert words.seen <= 2 * 3 * min(length, most * 20) + 3 * PIECE
    if refused is not None:
        assert real + torn > most
        assert refused.count >= most
    else:
        assert real <= made <= min(real + torn, most)


def test_a_text_that_cannot_fit_is_refused_unseen() -> None:
    words = Words(longest=20)
    with pytest.raises(TooLong, match="more than 100"):
        Tokenizer(words).tokenize("x" * 2001, add_special=False, most=100)
    assert words.seen == 0


def test_how_many_is_exact_where_all_was_counted() -> None:
    with pytest.raises(TooLong, match=r"^120$"):
        Tokenizer(Words()).tokenize("x" * 600, add_special=False, most=100)


def test_a_vocabulary_of_short_tokens_is_no_reason_to_refuse_white_space() -> None:
    Tokenizer(Words(longest=1)).check_size(LEAST_LONGEST * 100, 100)
    with pytest.raises(TooLong):
        Tokenizer(Words(longest=1)).check_size(LEAST_LONGEST * 100 + 1, 100)
    assert SLACK < LEAST_LONGEST


@pytest.mark.parametrize("text", ["\ud800", "a\udfff" * 9, "x" * PIECE + "\udead"])
def test_half_a_character_is_the_error_of_its_request(text: str) -> None:
    with pytest.raises(InvalidRequest, match=r"\\u[0-9a-f]{4} alone"):
        Tokenizer(Words()).tokenize(text, add_special=False, most=10**6)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["a", "1", ".", " ", "/\n", "_-", "東", "aB3_"])
def test_what_a_library_tokenises_whole_has_no_endless_words(unit: str) -> None:
    tokenizer = Tokenizer(Words())
    tokenizer.check_runs(f"{unit * 500} word. " * 100)
    with pytest.raises(InvalidRequest, match="8,191 characters"):
        tokenizer.check_runs("see: " + unit * 9000)
    Tokenizer(Words(joins=False)).check_runs(unit * 9000)


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "gap"), [("a", " "), ("é", "."), ("a_", " "), ("東", "。"), ("\n", "a"), (" ", "1")])
@pytest.mark.timeout(30)
def test_words_just_short_enough_are_passed_over_once(unit: str, gap: str) -> None:
    """A search that begins again at each of their characters takes minutes, and no other thread runs meanwhile."""
    text = (unit * (LONGEST_RUN // len(unit)) + gap) * 150
    Tokenizer(Words()).check_runs(text)


LONG = """
import sys
from pathlib import Path
from edgeserve.engine import ModelSpec
from edgeserve.engines.llama import model as llama_model
from edgeserve.engines.llama.options import LlamaOptions
model = llama_model.acquire(Path(sys.argv[1]), "cpu", LlamaOptions())
for unit in ("a", ".", " ", "/\\n", "1", "東", "e\\u0301"):
    print(len(model.tokenize(unit * 100_000, add_special=False)))
"""


@pytest.mark.models
@pytest.mark.parametrize("splitter", ["tekken", "gpt-4o", "bloom", "smollm"])
def test_long_words_do_not_end_the_process(tmp_path: Path, splitter: str) -> None:
    """llama.cpp splits with std::regex, which recurses once for each character of a match."""
    from support.tiny_gguf import write_model

    path = write_model(tmp_path / "tiny.gguf", "llama", splitter=splitter)
    told = subprocess.run([sys.executable, "-c", LONG, str(path)], capture_output=True, text=True, check=False)
    assert told.returncode == 0, told.stderr[-2000:]
    assert len(told.stdout.split()) == 7


def test_a_text_beside_a_picture_is_counted_before_the_library_reads_all_of_it() -> None:
    words, limit = Words(longest=160), 512
    model: Any = SimpleNamespace(tokenizer=Tokenizer(words))
    request = ChatRequest((Message("user", (TextPart("what?"), ImagePart(b""))),))

    def prepared(text: str) -> Prepared:
        return prepare_chat(model, lambda: ChatTemplate(None, "", ""), request, lambda _: text, limit)

    with pytest.raises(ContextOverflow):
        prepared("a word " * 10_000)
    assert words.seen <= 2 * PIECE
    assert prepared("a word " * (limit // 3)).text


def test_a_grammar_is_made_once_however_many_turns_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    """A schema may take half a second, and the chats of all others wait for the thread that prepares."""
    made: list[ChatRequest] = []
    make = grammar.grammar

    def counted(request: ChatRequest, *given: Any, **named: Any) -> grammar.Grammar | None:
        made.append(request)
        return make(request, *given, **named)

    monkeypatch.setattr(grammar, "grammar", counted)
    tokenizer = Tokenizer(Words())
    model: Any = SimpleNamespace(tokenizer=tokenizer, tokenize=tokenizer.tokenize)
    turns = tuple(Message("user", (TextPart("a word or two"),)) for _ in range(200))
    request = ChatRequest(turns, json_schema='{"type": "integer"}', truncate=True, max_tokens=1)
    tried: list[int] = []

    def render(asked: ChatRequest) -> str:
        tried.append(len(asked.messages))
        return " ".join(one.text for one in asked.messages)

    ready = prepare_chat(model, lambda: ChatTemplate(None, "", ""), request, render, 100)
    assert ready.rules
    assert 0 < len(ready.tokens) < 100
    assert len(tried) > 3
    assert len(made) == 1


@examples(40)
@given(some.sampled_from(["a", "ab ", "word, ", "\n", "東京"]), some.integers(0, 100_000), some.integers(1, 3000))
@pytest.mark.parametrize("joins", [True, False])
def test_the_beginning_of_a_text_is_that_of_the_whole(joins: bool, unit: str, length: int, most: int) -> None:
    text = (unit * (length // len(unit) + 1))[:length]
    words = Words(joins=joins)
    found, more = Tokenizer(words).beginning(text, most)
    whole = Words().split(text.encode(), 10**9, add_special=False)
    assert isinstance(whole, list)
    torn = len(list(pieces(text))) if joins else 0  # words longer than a piece are cut
    assert len(found) <= most
    assert len(found) >= min(most, len(whole)) - torn
    assert more == (len(whole) > most) or abs(len(whole) - most) <= torn + SLACK * len(list(pieces(text)))
    assert words.seen <= 2 * len(text.encode())
    assert words.seen <= 6 * (most * WORD + SLACK * WORD + 3 * PIECE)
