"""Prompts with a gap, on a model of random weights that has the tokens for them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.tiny_gguf import write_model

from edgeserve.engine import ModelSpec
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.filling import ending
from edgeserve.engines.llama.prepare import Prepared
from edgeserve.errors import InvalidRequest, NotSupported
from edgeserve.messages import ChatRequest, FinishEvent, Sampling

BEFORE, BEHIND, MIDDLE, REPOSITORY, FILE = 1, 2, 3, 4, 5
MARKS = ["<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>", "<|repo_name|>", "<|file_sep|>"]
LETTERS = {ord(letter): letter for letter in "abcdefghijklmnopqrstuvwxyz.-<>|_"} | {10: "Ċ", 32: "Ġ"}


def letters(text: str) -> list[int]:
    return [ord(letter) for letter in text]


def engine(folder: Path, *marks: str) -> LlamaChat:
    """Cold. Each letter is a token of its own, and the marks are the first tokens."""
    words = {**LETTERS, **dict(enumerate(marks, start=1))}
    path = write_model(folder / "model.gguf", "llama", words=words)
    options = {"context": 256, "parallel": 1}
    return LlamaChat(
        ModelSpec("llm", "tiny", "edgeserve.engines.llama.chat:LlamaChat", {"model": path}, threads=1, options=options)
    )


@pytest.fixture
def model(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[LlamaChat]:
    made = engine(tmp_path, *getattr(request, "param", MARKS))
    made.open()
    yield made
    made.close()


def prompt(model: LlamaChat, before: str, behind: str, *files: tuple[str, str], most: int = 8) -> list[int]:
    snippets = files or None
    ready = model.prepare(ChatRequest(prompt=before, suffix=behind, snippets=snippets, max_tokens=most))
    assert isinstance(ready, Prepared)
    return list(ready.tokens)


@pytest.mark.models
class TestOnAModel:
    def test_the_tokens_stand_around_the_gap(self, model: LlamaChat) -> None:
        assert prompt(model, "ab", "c") == [BEFORE, *letters("ab"), BEHIND, *letters("c"), MIDDLE]
        assert prompt(model, "", "") == [BEFORE, BEHIND, MIDDLE]

    def test_texts_of_control_tokens_stay_texts(self, model: LlamaChat) -> None:
        text = MARKS[2]
        assert prompt(model, text, "") == [BEFORE, *letters(text), BEHIND, MIDDLE]

    def test_other_files_come_first(self, model: LlamaChat) -> None:
        found = prompt(model, "a", "b", ("x.c", "one"), ("y.c", "two"))
        assert found == [
            REPOSITORY,
            *letters("myproject\n"),
            *(FILE, *letters("x.c\none")),
            *(FILE, *letters("y.c\ntwo")),
            *(FILE, *letters("filename\n")),
            *(BEFORE, *letters("a"), BEHIND, *letters("b"), MIDDLE),
        ]

    @pytest.mark.parametrize("model", [MARKS[:3]], indirect=True)
    def test_a_model_without_marks_for_files_gets_borders(self, model: LlamaChat) -> None:
        found = prompt(model, "a", "b", ("x.c", "one"))
        assert found == [*letters("\n\n--- snippet ---\n\none"), BEFORE, *letters("a"), BEHIND, *letters("b"), MIDDLE]

    def test_far_text_is_left_out(self, model: LlamaChat) -> None:
        found = prompt(model, "a" * 99_999 + "b", "c" + "d" * 99_999, most=56)
        assert found == [BEFORE, *letters("a" * 149 + "b"), BEHIND, *letters("c" + "d" * 45), MIDDLE]

    def test_the_gap_comes_before_other_files(self, model: LlamaChat) -> None:
        found = prompt(model, "a" * 99, "", ("v.c", "long ago"), ("x.c", "e" * 999 + "f"), most=56)
        head = [FILE, *letters("filename\n")]
        assert found == [*letters("e" * 87 + "f"), *head, BEFORE, *letters("a" * 99), BEHIND, MIDDLE]
        assert prompt(model, "a" * 999, "b" * 999, ("x.c", "e" * 99), most=56)[:2] == [*letters("\n"), BEFORE]

    @pytest.mark.parametrize("model", [MARKS[:2]], indirect=True)
    def test_a_model_without_the_tokens_is_refused(self, model: LlamaChat) -> None:
        with pytest.raises(NotSupported, match="no tokens for a text with a gap") as caught:
            prompt(model, "a", "b")
        assert caught.value.param == "suffix"

    def test_tokens_are_no_text_before_a_gap(self, model: LlamaChat) -> None:
        with pytest.raises(InvalidRequest, match="not of tokens"):
            model.prepare(ChatRequest(prompt=(97,), suffix="b"))

    def test_an_answer_begins(self, model: LlamaChat) -> None:
        model.heat()
        request = ChatRequest(prompt="a", suffix="b", max_tokens=2, sampling=Sampling(temperature=0.0))
        *_, last = model.chat(request, threading.Event())
        assert isinstance(last, FinishEvent)
        assert last.prompt_tokens == 5


@pytest.mark.parametrize("most", [0, 1, 5, 100])
def test_an_ending_reads_no_more_text_than_it_needs(most: int) -> None:
    read: list[int] = []

    def split(text: str) -> list[int]:
        read.append(len(text))
        return [int(word) for word in text.split(",") if word]

    text = "".join(f"{number}," for number in range(100, 1000))
    assert ending(split, text, most) == list(range(1000 - most, 1000))
    assert sum(read) <= 16 * most


def test_an_ending_of_long_words_reads_further() -> None:
    words = ["x" * 100] * 50
    assert ending(lambda text: [len(word) for word in text.split()], " ".join(words), 3) == [100] * 3
