"""Every parameter of OpenAI's chat and completions is read, accepted for nothing, or refused by name."""

from __future__ import annotations

import openai
import pytest
from openai import OpenAI
from openai.types import completion_create_params, embedding_create_params
from openai.types.chat import completion_create_params as chat_create_params
from support.cases import each

from edgeserve.api.openai.accepted import Accepted, Unavailable
from edgeserve.api.openai.chat import ChatCompletion
from edgeserve.api.openai.completions import RawCompletion
from edgeserve.api.openai.embeddings import Embedding

UNAVAILABLE = [name for name, one in Accepted.FIELDS.items() if isinstance(one, Unavailable)]
HELLO = [{"role": "user", "content": "hello there friend"}]


def test_no_parameter_of_the_client_is_unknown() -> None:
    def names(kind: type) -> set[str]:
        return set(kind.__annotations__)

    assert names(chat_create_params.CompletionCreateParamsNonStreaming) <= set(ChatCompletion.FIELDS)
    assert names(completion_create_params.CompletionCreateParamsNonStreaming) <= set(RawCompletion.FIELDS)
    assert names(embedding_create_params.EmbeddingCreateParams) <= set(Embedding.FIELDS)


def test_harmless_ones_are_accepted(ai: OpenAI) -> None:
    harmless = {
        "user": "me",
        "metadata": {"a": "b"},
        "safety_identifier": "x",
        "prompt_cache_key": "k",
        "prompt_cache_retention": "24h",
        "reasoning_effort": "low",
        "verbosity": "low",
        "prediction": {"type": "content", "content": "hello"},
        "store": True,
        "service_tier": "flex",
        "modalities": ["text"],
        "web_search_options": None,
        "stream_options": None,
    }
    answer = ai.chat.completions.create(model="llm", messages=HELLO, extra_body=harmless)
    assert answer.choices[0].message.content == "hello there friend"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("modalities", ["text", "audio"]),
        *((name, {"a": 1}) for name in UNAVAILABLE),
        ("dry_multiplier", 0.8),
        ("use_beam_search", True),
        ("prompt_logprobs", 1),
        ("length_penalty", 2),
        ("skip_special_tokens", False),
    ],
)
def test_unsupported_parameters_are_named(ai: OpenAI, name: str, value: object) -> None:
    with pytest.raises(openai.BadRequestError, match=f"{name} is not") as caught:
        ai.chat.completions.create(model="llm", messages=HELLO, extra_body={name: value})
    assert caught.value.param == name
    with pytest.raises(openai.BadRequestError, match=f"{name} is not"):
        ai.completions.create(model="llm", prompt="a", extra_body={name: value})


@each(
    ("settings", "told"),
    [
        ({"temperature": 101}, "temperature must lie between 0 and 100, not 101"),
        ({"temperature": "hot"}, "temperature must be a number, not a string"),
        ({"top_p": -0.1}, "top_p must lie between 0 and 1"),
        ({"top_k": -2}, "top_k must lie between -1 and 100000"),
        ({"min_p": 1.1}, "min_p must lie between 0 and 1"),
        ({"presence_penalty": 3}, "presence_penalty must lie between -2 and 2"),
        ({"frequency_penalty": -3}, "frequency_penalty must lie between -2 and 2"),
        ({"repeat_penalty": 0}, "repeat_penalty must lie between 0.01 and 10"),
        ({"seed": 1.5}, "seed must be a whole number"),
        ({"n": 9}, "n must lie between 1 and 8"),
        ({"n": 0}, "n must lie between 1 and 8"),
        ({"max_tokens": -2}, "max_tokens must lie between -1 and"),
        ({"max_completion_tokens": -2}, "max_completion_tokens must lie between -1 and"),
        ({"stop": ["a"] * 257}, "stop has 257 entries; the limit is 256"),
        ({"stop": 5}, "stop must be a string or a list of strings"),
        ({"logit_bias": {"5": 101}}, "logit_bias.5 must lie between -100 and 100"),
        ({"stream_options": {"include_usage": True}}, "stream_options is only allowed when stream is true"),
    ],
)
def test_ranges_are_checked(ai: OpenAI, settings: dict[str, object], told: str) -> None:
    with pytest.raises(openai.BadRequestError, match=told) as caught:
        ai.chat.completions.create(model="llm", messages=HELLO, extra_body=settings)
    assert caught.value.param is not None
    assert caught.value.param.split(".")[0] in settings


def test_all_of_them_together(ai: OpenAI) -> None:
    answer = ai.chat.completions.create(
        model="fake-llm",
        messages=HELLO,
        temperature=0.5,
        top_p=0.9,
        presence_penalty=-1,
        frequency_penalty=1,
        seed=-3,
        n=2,
        stop=["friend", "foe"],
        logit_bias={"7": -100},
        max_completion_tokens=9,
        max_tokens=1,
        logprobs=True,
        top_logprobs=20,
        extra_body={"top_k": 3, "min_p": 0.1, "repeat_penalty": 1.1},
    )
    assert [choice.message.content for choice in answer.choices] == ["hello there"] * 2
    assert [choice.finish_reason for choice in answer.choices] == ["stop"] * 2
