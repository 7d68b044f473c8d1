"""The slot of a new prompt, on a real engine: what it shares with other conversations is not read again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from edgeserve.chat_parts import Message, TextPart
from edgeserve.engine import ModelSpec
from edgeserve.engines.llama.cache import WORTH_SAVING
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.seats import WORTH_COPYING
from edgeserve.messages import ChatRequest, FinishEvent, Sampling

pytestmark = pytest.mark.models

Pulled = Callable[[str], Mapping[str, Path]]


@pytest.fixture(scope="module")
def engine(pulled: Pulled) -> Iterator[LlamaChat]:
    files = {"model": pulled("smollm2-135m-instruct")["model"]}
    options = {"context": 1024, "parallel": 4}
    engine = LlamaChat(ModelSpec("llm", "smollm2", "edgeserve.engines.llama.chat:LlamaChat", files, options=options))
    engine.open()
    engine.heat()
    yield engine
    engine.close()


def say(engine: LlamaChat, text: str, salt: str = "", tokens: int = 1) -> FinishEvent:
    request = ChatRequest(
        (Message("user", (TextPart(text),)),), max_tokens=tokens, sampling=Sampling(temperature=0.0), salt=salt
    )
    *_, finish = engine.chat(request, threading.Event())
    assert isinstance(finish, FinishEvent)
    return finish


def test_a_new_conversation_begins_behind_the_words_that_all_begin_with(engine: LlamaChat) -> None:
    assert say(engine, "Name three colours of the sea.", tokens=WORTH_SAVING).cached_tokens == 0
    second = say(engine, "Why do cats sleep all day?")
    assert WORTH_COPYING <= second.cached_tokens < second.prompt_tokens - WORTH_COPYING, "the head of the template"
    first = say(engine, "Name three colours of the sea.")
    assert first.cached_tokens == first.prompt_tokens - 1, "it kept its own slot"


def test_another_client_shares_no_such_words(engine: LlamaChat) -> None:
    say(engine, "Name three colours of the sea.", "one")
    assert say(engine, "Name three colours of the sea.", "two").cached_tokens == 0
