"""Raw prompts through the official client."""

from __future__ import annotations

import openai
import pytest
from openai import OpenAI
from support.cases import each


@pytest.mark.parametrize(
    ("prompt", "texts"),
    [
        ("a b", ["a b"]),
        (["a b", "c"], ["a b", "c"]),
        ([7, 8, 9], ["7 8 9"]),
        ([[7, 8], [9]], ["7 8", "9"]),
        (["a", [7, 8]], ["a", "7 8"]),
    ],
)
def test_every_form_of_a_prompt(ai: OpenAI, prompt: object, texts: list[str]) -> None:
    answer = ai.completions.create(model="llm", prompt=prompt)  # type: ignore[arg-type]
    assert [choice.text for choice in answer.choices] == texts
    assert [choice.index for choice in answer.choices] == list(range(len(texts)))
    assert answer.usage is not None
    assert answer.usage.prompt_tokens == sum(len(text.split()) for text in texts)


@pytest.mark.parametrize("stream", [False, True])
def test_echo_comes_first_in_each_choice(ai: OpenAI, stream: bool) -> None:
    got = ai.completions.create(model="llm", prompt=["a b", "c"], echo=True, n=2, stream=stream)
    texts = ["", "", "", ""]
    for part in got if stream else [got]:  # type: ignore[union-attr,list-item]
        for choice in part.choices:
            texts[choice.index] += choice.text
    assert texts == ["a ba b", "a ba b", "cc", "cc"]


def test_thoughts_are_text_here(ai: OpenAI) -> None:
    answer = ai.completions.create(model="llm", prompt="<think> a </think> b")
    assert answer.choices[0].text == "<think> a </think> b"


@each(
    ("settings", "told"),
    [
        ({"suffix": "end", "echo": True}, "echo is not supported together with suffix"),
        ({"suffix": 1}, "suffix must be a string"),
        ({"n": 2, "best_of": 1}, "best_of must be at least n, which is 2, not 1"),
        ({"best_of": 2, "stream": True}, "best_of must equal n, which is 1, where stream is true"),
        ({"prompt": ["a"] * 3, "best_of": 3}, "best_of is 3, which makes 9 answers; the limit is 8"),
        ({"prompt": []}, "prompt is required"),
        ({"prompt": ["a", ""]}, r"prompt\[1\] is required"),
        ({"prompt": [[1], []]}, r"prompt\[1\] is required"),
        ({"prompt": {"a": 1}}, "prompt must be a string, a list of strings, a list of tokens"),
        ({"prompt": [1, "a"]}, "prompt must be a string or a list of tokens"),
        ({"prompt": [-1]}, r"prompt\[0\] must be a string or a list of tokens"),
        ({"prompt": [1.5]}, r"prompt\[0\] must be a string or a list of tokens"),
        ({"prompt": ["a"] * 9}, "prompt has 9 entries; the limit is 8"),
        ({"prompt": ["a"] * 3, "n": 3}, "n is 3, which makes 9 answers; the limit is 8"),
        ({"prompt": [1, 2], "echo": True}, "echo is not supported for prompts of tokens"),
        ({"stream_options": {"include_usage": True}}, "stream_options is only allowed when stream is true"),
    ],
)
def test_wrong_fields_are_named(ai: OpenAI, settings: dict[str, object], told: str) -> None:
    with pytest.raises(openai.BadRequestError, match=told) as caught:
        ai.completions.create(model="llm", prompt="a", extra_body=settings)
    assert caught.value.code == "invalid_request"
    assert caught.value.param is not None
    assert caught.value.param.split("[")[0] in settings


def test_a_suffix_makes_a_gap_that_the_answer_fills(ai: OpenAI) -> None:
    answer = ai.completions.create(model="llm", prompt=["a", "b"], suffix="c")
    assert [choice.text for choice in answer.choices] == ["a c", "b c"]


def test_parameters_that_ask_for_nothing_are_accepted(ai: OpenAI) -> None:
    answer = ai.completions.create(model="llm", prompt="a", suffix="", best_of=1, user="me", logit_bias={"50256": -100})
    assert answer.choices[0].text == "a"
