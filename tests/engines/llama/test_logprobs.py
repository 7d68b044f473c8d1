"""Logprobs of a real small model: true to its logits, and no word of the answer changed by asking."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
from support.contract import ask

from edgeserve.engine import ModelSpec
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.model import MappedModel
from edgeserve.errors import InvalidRequest
from edgeserve.messages import ChatRequest, Message, ReasoningEvent, Sampling, TextPart, TokenEvent, TokenLogprob

pytestmark = pytest.mark.models
GREEDY = Sampling(temperature=0.0)
Pulled = Callable[[str], Mapping[str, Path]]


def opened(pulled: Pulled, kind: type[LlamaChat] = LlamaChat) -> LlamaChat:
    files = {"model": pulled("smollm2-135m-instruct")["model"]}
    engine = kind(
        ModelSpec(
            "llm", "smollm2", "edgeserve.engines.llama.chat:LlamaChat", files, threads=2, options={"context": 512}
        )
    )
    engine.open()
    engine.heat()
    return engine


@pytest.fixture(scope="module")
def engine(pulled: Pulled) -> Iterator[LlamaChat]:
    engine = opened(pulled)
    yield engine
    engine.close()


def say(engine: LlamaChat, request: ChatRequest) -> tuple[str, list[TokenLogprob]]:
    events = [event for event in engine.chat(request, threading.Event()) if isinstance(event, TokenEvent)]
    return "".join(event.text for event in events), [one for event in events for one in event.logprobs]


def test_asking_changes_nothing(engine: LlamaChat) -> None:
    plain, none = say(engine, ask("What is the capital of France?", sampling=GREEDY, max_tokens=16))
    text, told = say(engine, ask("What is the capital of France?", sampling=GREEDY, max_tokens=16, logprobs=0))
    assert (text, none) == (plain, [])
    assert b"".join(one.token.data for one in told).decode() == text
    assert all(one.token.logprob <= 0 and one.top == () for one in told)


def test_all_of_the_vocabulary_adds_up_to_one(engine: LlamaChat) -> None:
    _, told = say(engine, ask("Tell me a story.", sampling=GREEDY, max_tokens=2, logprobs=49_152))
    for one in told:
        assert math.fsum(math.exp(other.logprob) for other in one.top) == pytest.approx(1.0, abs=1e-6)


def test_a_token_that_was_forced_is_told_as_likely_as_it_was(engine: LlamaChat) -> None:
    model = engine._model
    assert isinstance(model, MappedModel)
    (token,) = model.tokenize(" volcano", add_special=False)
    forced = Sampling(temperature=0.0, logit_bias=((token, 100.0),))
    _, told = say(engine, ask("What is the capital of France?", sampling=forced, max_tokens=1, logprobs=2))
    assert told[0].token.data == b" volcano"
    assert told[0].token.logprob < told[0].top[1].logprob < told[0].top[0].logprob


def test_control_tokens_are_named_among_the_alternatives(engine: LlamaChat) -> None:
    answer, _ = say(engine, ask("Say hi.", sampling=GREEDY, max_tokens=40))
    _, told = say(engine, ask("Say hi.", sampling=GREEDY, max_tokens=40, logprobs=20))
    assert answer
    assert any(other.text == "<|im_end|>" for one in told for other in one.top)


def test_tokens_as_a_prompt_say_what_their_text_says(engine: LlamaChat) -> None:
    model = engine._model
    assert isinstance(model, MappedModel)
    text = "one two three four five six seven"
    by_text = ChatRequest(prompt=text, max_tokens=6, sampling=GREEDY)
    tokens = tuple(model.tokenize(text, add_special=True))
    assert say(engine, ChatRequest(prompt=tokens, max_tokens=6, sampling=GREEDY)) == say(engine, by_text)
    with pytest.raises(InvalidRequest, match="token 49152 is not in the vocabulary of 49152 tokens") as caught:
        say(engine, ChatRequest(prompt=(49_152,)))
    assert caught.value.param == "prompt"


class Thinking(LlamaChat):
    """Its template opens the thoughts, as some do."""

    def prompt(self, model: MappedModel, request: ChatRequest, marker: str = "") -> str:
        return super().prompt(model, request, marker) + "<think>\n"


def test_thoughts_that_the_template_opened_are_told_apart(pulled: Pulled) -> None:
    engine = opened(pulled, Thinking)
    messages = (Message("user", (TextPart("What is the capital of France?"),)),)
    *events, finish = engine.chat(ChatRequest(messages, max_tokens=8, sampling=GREEDY), threading.Event())
    assert events
    assert all(isinstance(event, ReasoningEvent) for event in events)
    assert finish.reasoning_tokens == finish.completion_tokens  # type: ignore[union-attr]
    raw = list(engine.chat(ChatRequest(prompt="a b c", max_tokens=4, sampling=GREEDY), threading.Event()))
    assert isinstance(raw[0], TokenEvent)
    engine.close()
