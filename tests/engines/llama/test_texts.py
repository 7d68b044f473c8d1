"""Texts as a real vocabulary reads them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from support.hot import hot

from edgeserve.engine import ModelSpec
from edgeserve.engines.llama import prepare, texts
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.errors import InvalidRequest, TooLarge
from edgeserve.messages import ChatRequest, EmbedRequest, Message, TextEvent, TextPart, TextRequest

pytestmark = pytest.mark.models
TALK = (Message("user", (TextPart("Name a bird."),)),)


@pytest.fixture(scope="module")
def engine(pulled: Callable[[str], Mapping[str, Path]]) -> Iterator[LlamaChat]:
    files = {"model": pulled("smollm2-135m-instruct")["model"]}
    with hot(LlamaChat(ModelSpec("llm", "smollm2", "x", files, threads=1, options={"context": 256}))) as engine:
        yield engine


def read(engine: LlamaChat, request: TextRequest) -> TextEvent:
    (event,) = engine.read_text(request, threading.Event())
    return event


def test_tokens_and_text_are_each_others_way_back(engine: LlamaChat) -> None:
    for text in ("Herons stand in shallow water.", "naïve 🙂 日本語", "", " "):
        tokens = read(engine, TextRequest(text=text)).tokens
        assert read(engine, TextRequest(tokens=tokens)).text == text


def test_texts_of_control_tokens_are_tokens_where_they_may_be(engine: LlamaChat) -> None:
    marked = "<|im_start|>user"
    parsed = read(engine, TextRequest(text=marked))
    assert len(parsed.tokens) < len(read(engine, TextRequest(text=marked, parse_special=False)).tokens)
    assert read(engine, TextRequest(tokens=parsed.tokens)).text == marked


def test_pieces_join_to_the_text(engine: LlamaChat) -> None:
    event = read(engine, TextRequest(text="naïve 🙂", pieces=True))
    assert b"".join(event.pieces).decode() == "naïve 🙂"
    assert len(event.pieces) == len(event.tokens)


def test_a_prompt_has_the_tokens_that_an_answer_counts(engine: LlamaChat) -> None:
    event = read(engine, TextRequest(chat=ChatRequest(TALK)))
    assert "Name a bird." in event.text
    *_, finish = engine.chat(ChatRequest(TALK, max_tokens=1), threading.Event())
    assert finish.prompt_tokens == len(event.tokens)  # type: ignore[union-attr]
    assert event.context == 256


def test_an_unknown_token_is_an_error(engine: LlamaChat) -> None:
    with pytest.raises(InvalidRequest, match="token 2000000 is not in the vocabulary"):
        read(engine, TextRequest(tokens=(2_000_000,)))


@pytest.mark.parametrize("talk", [True, False])
def test_more_tokens_than_an_answer_may_tell_are_refused(
    engine: LlamaChat, talk: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A character may be three tokens, and a token takes a hundred bytes on its way."""
    monkeypatch.setattr(texts, "MOST", 100)
    text = "𐐀" * 101
    chat = ChatRequest((Message("user", (TextPart(text),)),)) if talk else None
    with pytest.raises(TooLarge, match="the limit is 100 at a time: send it in parts") as caught:
        read(engine, TextRequest(text=None if talk else text, chat=chat))
    assert caught.value.param == ("messages" if talk else "text")


@pytest.mark.parametrize("talk", [True, False])
def test_a_text_of_few_tokens_and_many_characters_is_refused(engine: LlamaChat, talk: bool) -> None:
    """White space has 64 characters a token: 16 MB of it kept a thread busy for half a minute."""
    text = " " * (texts.MOST_TEXT + 1)
    chat = ChatRequest((Message("user", (TextPart(text),)),)) if talk else None
    with pytest.raises(TooLarge, match="characters; the limit is 2,097,152 at a time") as caught:
        read(engine, TextRequest(text=None if talk else text, chat=chat))
    assert caught.value.param == ("messages" if talk else "text")


@pytest.mark.parametrize("cut", [False, True])
def test_inputs_of_few_tokens_and_many_characters_are_refused(
    engine: LlamaChat, monkeypatch: pytest.MonkeyPatch, cut: bool
) -> None:
    """14 MB of white space kept the thread that reads long texts for half a minute."""
    monkeypatch.setattr(prepare, "MOST_TEXT", 5000)
    text = "a" + " " * (20_000 if cut else 2000)
    with pytest.raises(InvalidRequest, match="inputs have more than 5,000 characters: send fewer") as caught:
        engine.prepare(EmbedRequest((text,) * 3, cut=cut))
    assert caught.value.param == "input"
    assert engine.prepare(EmbedRequest(("a" + " " * 2000,) * 2))
