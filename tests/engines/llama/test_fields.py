"""Fields of a request that shape the answer of a real model."""

from __future__ import annotations

import dataclasses
import json
import re
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from support.contract import ask
from support.hot import hot

from edgeserve.engine import ModelSpec
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.errors import ContextOverflow, InvalidRequest
from edgeserve.messages import FinishEvent, LoosenedEvent, Message, Sampling, TextPart, TokenEvent

pytestmark = pytest.mark.models
Pulled = Callable[[str], Mapping[str, Path]]
GREEDY = Sampling(temperature=0.0)
WILD = Sampling(temperature=4.0, top_k=0, top_p=1.0, min_p=0.0, seed=3)


@pytest.fixture(scope="module")
def engine(pulled: Pulled) -> Iterator[LlamaChat]:
    files = {"model": pulled("smollm2-135m-instruct")["model"]}
    with hot(LlamaChat(ModelSpec("llm", "smollm2", "x", files, threads=1, options={"context": 512}))) as engine:
        yield engine


def answer(engine: LlamaChat, text: str = "Name a bird.", **fields: Any) -> tuple[str, FinishEvent]:
    request = ask(text, **{"sampling": GREEDY, "max_tokens": 24} | fields)
    *events, finish = engine.chat(request, threading.Event())
    assert isinstance(finish, FinishEvent)
    return "".join(one.text for one in events if isinstance(one, TokenEvent)), finish


def test_no_tokens_are_an_empty_answer_and_a_prompt_that_was_read(engine: LlamaChat) -> None:
    said, finish = answer(engine, "Which river is long?", max_tokens=0)
    assert (said, finish.reason, finish.completion_tokens) == ("", "length", 0)
    assert answer(engine, "Which river is long?")[1].cached_tokens == finish.prompt_tokens - 1


def test_a_prompt_that_was_read_ahead_makes_no_other_answer(engine: LlamaChat) -> None:
    """Behind it, the answer only adds tokens. It had to read the whole prompt."""
    said = answer(engine, "Name a river.", salt="first")[0]
    read = answer(engine, "Name a river.", salt="second", max_tokens=0, ahead=True, generation_prompt=False)[1]
    again, finish = answer(engine, "Name a river.", salt="second")
    assert again == said
    assert finish.cached_tokens == read.prompt_tokens < finish.prompt_tokens


@pytest.mark.parametrize("fields", [{"min_tokens": 60}, {"ignore_eos": True}])
def test_an_answer_does_not_end_too_early(engine: LlamaChat, fields: dict[str, Any]) -> None:
    short = answer(engine, "Say hi.", max_tokens=80)[1]
    assert short.reason == "stop"
    long = answer(engine, "Say hi.", max_tokens=80, **fields)[1]
    assert long.completion_tokens >= 60
    assert long.completion_tokens == 80 or long.reason == "stop"


def test_a_complete_form_ends_in_any_case(engine: LlamaChat) -> None:
    said, finish = answer(engine, choices=("yes", "no"), min_tokens=50, ignore_eos=True, max_tokens=60)
    assert said in ("yes", "no")
    assert finish.reason == "stop"


def test_a_token_ends_the_answer(engine: LlamaChat) -> None:
    assert engine._model is not None
    whole = answer(engine)[0]
    tokens = engine._model.tokenize(whole, add_special=False)
    said, finish = answer(engine, stop_tokens=(tokens[4],))
    assert finish.reason == "stop"
    assert whole.startswith(said)
    assert finish.completion_tokens <= 5
    with pytest.raises(InvalidRequest, match="is not in the vocabulary") as caught:
        answer(engine, stop_tokens=(10**6,), min_tokens=1)
    assert caught.value.param == "stop_token_ids"


def test_a_smaller_context_bounds_prompt_and_answer(engine: LlamaChat) -> None:
    prompt = answer(engine)[1].prompt_tokens
    finish = answer(engine, context=prompt + 5)[1]
    assert (finish.reason, finish.completion_tokens) == ("length", 5)
    assert answer(engine, context=10**6)[1].completion_tokens == answer(engine)[1].completion_tokens
    with pytest.raises(ContextOverflow):
        answer(engine, context=prompt - 1)


@pytest.mark.parametrize(
    "settings",
    [
        {"mirostat": 1},
        {"mirostat": 2, "mirostat_tau": 0.0},
        {"mirostat": 2, "mirostat_eta": 1.0, "temperature": 50.0},
        {"typical_p": 0.0, "top_k": 0},
        {"typical_p": 0.5, "top_k": 0, "min_p": 0.0, "top_p": 1.0},
        {"top_n_sigma": 0.5},
        {"xtc_probability": 1.0, "xtc_threshold": 0.0},
        {"dynatemp_range": 100.0, "dynatemp_exponent": 10.0, "temperature": 1.0},
        {"dynatemp_range": 0.5, "temperature": 1e-5},
        {"temperature": 100.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0},
        {"repeat_penalty": 1.5, "repeat_last_n": -1},
        {"repeat_penalty": 1.5, "repeat_last_n": 0},
    ],
)
@pytest.mark.parametrize("fields", [{}, {"json_object": True}, {"min_tokens": 30}])
def test_every_sampler_makes_an_answer(engine: LlamaChat, settings: dict[str, Any], fields: dict[str, Any]) -> None:
    sampling = Sampling(**{"temperature": 0.8, "seed": 5} | settings)
    first, again = (answer(engine, sampling=sampling, max_tokens=12, **fields) for _ in range(2))
    assert first[1].completion_tokens > 0
    assert first[0] == again[0], "one seed, one answer"


def test_a_penalty_reaches_as_far_back_as_it_may(engine: LlamaChat) -> None:
    assert engine._model is not None
    (token,) = engine._model.tokenize(" sea", add_special=False)
    counts = [
        answer(
            engine,
            sampling=Sampling(
                temperature=0.0, logit_bias=((token, 14.0),), presence_penalty=100.0, repeat_last_n=window
            ),
            max_tokens=40,
        )[0].count("sea")
        for window in (0, 3, -1)
    ]
    assert counts[0] > counts[1] > counts[2]


GRAMMARS = {
    "words": (r'root ::= ("red" | "green" | "blue") ("," [a-z]{2,5})? "!"', r"(red|green|blue)(,[a-z]{2,5})?!"),
    "unicode": ('root ::= "größe: " [é-ü🙂]{3}', "größe: [é-ü🙂]{3}"),
    "brackets": ('root ::= "(" inner ")"\ninner ::= "(" inner ")" | [0-9]{1,3}', r"\(+[0-9]{1,3}\)+"),
    "list": ('root ::= ("- " [^\\n]{1,12} "\\n"){2,3}', r"(- [^\n]{1,12}\n){2,3}"),
}


@pytest.mark.parametrize("name", GRAMMARS)
@pytest.mark.parametrize("sampling", [GREEDY, WILD])
def test_a_clients_grammar_holds_the_answer(engine: LlamaChat, name: str, sampling: Sampling) -> None:
    grammar, pattern = GRAMMARS[name]
    said, finish = answer(engine, grammar=grammar, sampling=sampling, max_tokens=80)
    assert finish.reason == "stop" or name == "brackets"
    assert finish.reason != "stop" or re.fullmatch(pattern, said)


def test_a_grammar_that_is_read_in_too_many_ways_ends_the_request(engine: LlamaChat) -> None:
    grammar = 'root ::= "(" root ")" | "(" root "]"'
    with pytest.raises(InvalidRequest, match="more than 1000 ways") as caught:
        answer(engine, grammar=grammar, max_tokens=60)
    assert caught.value.param == "grammar"
    assert answer(engine)[0]


@pytest.mark.parametrize("sampling", [GREEDY, WILD])
def test_other_forms_hold_the_answer(engine: LlamaChat, sampling: Sampling) -> None:
    assert answer(engine, choices=("heron", "stork", "über alles"), sampling=sampling)[0] in (
        "heron",
        "stork",
        "über alles",
    )
    assert re.fullmatch("[A-Z]{3}-[0-9]{2}", answer(engine, pattern="^[A-Z]{3}-[0-9]{2}$", sampling=sampling)[0])


def test_a_loosened_schema_is_told_first(engine: LlamaChat) -> None:
    schema = {"type": "array", "items": {"enum": [1, 2]}, "uniqueItems": True, "maxItems": 3}
    request = ask("Numbers.", json_schema=json.dumps(schema), sampling=GREEDY, max_tokens=20)
    first, *events = engine.chat(request, threading.Event())
    assert first == LoosenedEvent(("response_format: uniqueItems",))
    assert isinstance(json.loads("".join(one.text for one in events if isinstance(one, TokenEvent))), list)
    with pytest.raises(InvalidRequest, match="uses uniqueItems"):
        answer(engine, json_schema=json.dumps(schema), strict=True)


def test_an_answer_goes_on_in_the_last_message(engine: LlamaChat) -> None:
    begun = (Message("user", (TextPart("Count."),)), Message("assistant", (TextPart("1, 2, 3, 4,"),)))
    request = dataclasses.replace(ask(""), messages=begun, continues=True, sampling=GREEDY, max_tokens=8)
    said = "".join(one.text for one in engine.chat(request, threading.Event()) if isinstance(one, TokenEvent))
    assert said.startswith(" 5")
