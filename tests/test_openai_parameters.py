"""Each parameter of OpenAI's chat on a real model, through the official client."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import openai
import pytest
from openai import OpenAI
from support.gates import engine_of
from support.server import Running, serving

from edgeserve import assembly
from edgeserve.config import Config
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.model_settings import ModelSettings
from edgeserve.models.store import Store

pytestmark = pytest.mark.models
ASKED: Any = [{"role": "user", "content": "Tell me about the sea."}]
GREEDY: Any = {"temperature": 0, "max_completion_tokens": 12}


@pytest.fixture(scope="module")
def served(store: Store, pulled: Callable[[str], Mapping[str, Path]]) -> Iterator[Running]:
    pulled("smollm2-135m-instruct")
    settings = ModelSettings(model="smollm2-135m-instruct", options={"context": 512})
    with serving(assembly.build_pool(Config(models={"llm": settings}), store)) as running:
        yield running


@pytest.fixture(scope="module")
def ai(served: Running) -> Iterator[OpenAI]:
    with OpenAI(base_url=f"{served.url}/v1", api_key="none", max_retries=0, timeout=240) as client:
        yield client


def ask(ai: OpenAI, **settings: Any) -> Any:
    return ai.chat.completions.create(model="", messages=ASKED, **settings)


def text(ai: OpenAI, **settings: Any) -> str:
    return str(ask(ai, **settings).choices[0].message.content)


def test_a_seed_and_its_answers_can_be_had_again(ai: OpenAI) -> None:
    hot: Any = {"temperature": 1.2, "seed": 11, "max_completion_tokens": 10, "n": 2}
    text(ai, **hot)  # so that both find the prompt read
    first, second = ([choice.message.content for choice in ask(ai, **hot).choices] for _ in range(2))
    assert first == second
    assert len(set(first)) == 2
    assert text(ai, **hot | {"n": 1, "seed": 12}) == first[1]
    assert text(ai, **hot | {"n": 1, "seed": 13}) not in first


def test_usage_counts_a_prompt_once_and_every_answer(ai: OpenAI) -> None:
    text(ai, max_completion_tokens=1)  # so that the prompt has been read
    one, three = (ask(ai, n=count, max_completion_tokens=4).usage for count in (1, 3))
    assert one.prompt_tokens == three.prompt_tokens
    assert (one.completion_tokens, three.completion_tokens) == (4, 12)
    assert three.total_tokens == three.prompt_tokens + 12
    assert 0 < one.prompt_tokens_details.cached_tokens < one.prompt_tokens


def test_limits_and_stops(ai: OpenAI) -> None:
    for name in ("max_tokens", "max_completion_tokens"):
        cut = ask(ai, temperature=0, **{name: 3})
        assert (cut.choices[0].finish_reason, cut.usage.completion_tokens) == ("length", 3)
    whole = text(ai, **GREEDY)
    stop = whole.split()[4]
    ended = ask(ai, **GREEDY, stop=["never said", stop])
    assert ended.choices[0].finish_reason == "stop"
    assert ended.choices[0].message.content == whole[: whole.index(stop)]


def test_a_biased_token_is_never_said_or_always(ai: OpenAI, served: Running) -> None:
    engine: Any = engine_of(served.pool.gates["llm"])
    assert isinstance(engine, LlamaChat)
    first = ask(ai, **GREEDY, logprobs=True).choices[0].logprobs.content[0]
    assert engine._model is not None
    (token,) = engine._model.tokenize(first.token, add_special=False)
    without = ask(ai, **GREEDY, logprobs=True, logit_bias={str(token): -100}).choices[0].logprobs.content
    assert first.token not in [one.token for one in without]
    only = text(ai, **GREEDY, logit_bias={str(token): 100})
    assert only == first.token * 12


@pytest.mark.parametrize(
    "penalty", [{"frequency_penalty": 2.0}, {"presence_penalty": 2.0}, {"extra_body": {"repeat_penalty": 3.0}}]
)
def test_penalties_keep_it_from_repeating(ai: OpenAI, served: Running, penalty: dict[str, Any]) -> None:
    engine: Any = engine_of(served.pool.gates["llm"])
    (token,) = engine._model.tokenize(" sea", add_special=False)
    pushed: Any = GREEDY | {"logit_bias": {str(token): 14}}
    often = text(ai, **pushed).count("sea")
    assert text(ai, **pushed | penalty).count("sea") < often


def test_narrow_sampling_is_greedy(ai: OpenAI) -> None:
    text(ai, **GREEDY)
    greedy = text(ai, **GREEDY)
    for narrow in ({"top_p": 0.0}, {"extra_body": {"top_k": 1}}, {"extra_body": {"min_p": 1.0}}):
        assert text(ai, temperature=1.5, max_completion_tokens=12, **narrow) == greedy


def test_logprobs_are_those_of_the_text(ai: OpenAI) -> None:
    choice = ask(ai, **GREEDY, logprobs=True, top_logprobs=5).choices[0]
    content = choice.logprobs.content
    assert len(content) == 12
    assert "".join(one.token for one in content) == choice.message.content
    for one in content:
        assert one.logprob == pytest.approx(one.top_logprobs[0].logprob)  # greedy: the likeliest
        shares = [math.exp(other.logprob) for other in one.top_logprobs]
        assert shares == sorted(shares, reverse=True)
        assert len(shares) == 5
        assert sum(shares) <= 1.0 + 1e-4
        assert bytes(one.bytes).decode() == one.token


def test_a_stream_is_the_same_answer(ai: OpenAI) -> None:
    text(ai, **GREEDY)
    whole = ask(ai, **GREEDY)
    *chunks, last = ask(ai, **GREEDY, stream=True, stream_options={"include_usage": True})
    said = "".join(chunk.choices[0].delta.content or "" for chunk in chunks)
    assert said == whole.choices[0].message.content
    assert (last.choices, last.usage.completion_tokens) == ([], 12)
    assert all(chunk.usage is None for chunk in chunks)
    assert chunks[-1].choices[0].finish_reason == "length"


@pytest.mark.parametrize("seed", range(2))
def test_an_answer_is_held_to_its_schema(ai: OpenAI, seed: int) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"enum": ["Baltic", "North"]}, "depth": {"type": "integer", "minimum": 1}},
        "required": ["name", "depth"],
        "additionalProperties": False,
    }
    form = {"type": "json_schema", "json_schema": {"name": "sea", "schema": schema, "strict": True}}
    value = json.loads(text(ai, temperature=2, seed=seed, max_completion_tokens=60, response_format=form))
    assert set(value) == {"name", "depth"}
    assert value["name"] in ("Baltic", "North")
    assert isinstance(value["depth"], int)
    assert value["depth"] >= 1


def test_a_prompt_beyond_the_context_is_told_with_both_numbers(ai: OpenAI) -> None:
    long: Any = [{"role": "user", "content": "sea " * 600}]
    with pytest.raises(openai.BadRequestError, match=r"\d{3} tokens long; the context holds 512") as refused:
        ai.chat.completions.create(model="", messages=long)
    assert refused.value.code == "context_length_exceeded"
