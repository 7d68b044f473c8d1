"""Logprobs in both of OpenAI's shapes."""

from __future__ import annotations

import gc
import json
import math
import sys
import threading
from collections.abc import Callable
from typing import Any

import openai
import pytest
from openai import OpenAI
from support.cases import each

from edgeserve.api.llama_server.answer import Answer, Asked
from edgeserve.api.openai.chat import ChatChoice, Style
from edgeserve.api.openai.completions import TextChoice
from edgeserve.api.openai.logprobs import CompletionLogprobs, chat_logprobs
from edgeserve.api.openai.renderer import Completion
from edgeserve.api.timings import Timings
from edgeserve.messages import Candidate, ChatRequest, FinishEvent, TokenEvent, TokenLogprob

HELLO = [{"role": "user", "content": "hello there friend"}]


def test_chat(ai: OpenAI) -> None:
    answer = ai.chat.completions.create(model="llm", messages=HELLO, logprobs=True, top_logprobs=3)
    logged = answer.choices[0].logprobs
    assert logged is not None
    assert logged.content is not None
    assert [one.token for one in logged.content] == ["hello", " there", " friend"]
    assert [bytes(one.bytes or ()) for one in logged.content] == [b"hello", b" there", b" friend"]
    for one in logged.content:
        assert one.logprob == pytest.approx(-math.log(2))
        assert [other.token for other in one.top_logprobs] == [one.token, " other1", " other2"]
    bare = ai.chat.completions.create(model="llm", messages=HELLO, logprobs=True)
    assert bare.choices[0].logprobs is not None
    assert [one.top_logprobs for one in bare.choices[0].logprobs.content or ()] == [[]] * 3
    assert ai.chat.completions.create(model="llm", messages=HELLO).choices[0].logprobs is None


def test_chat_streams(ai: OpenAI) -> None:
    chunks = list(
        ai.chat.completions.create(model="llm", messages=HELLO, logprobs=True, top_logprobs=1, stream=True, n=2)
    )
    for index in (0, 1):
        own = [choice for chunk in chunks for choice in chunk.choices if choice.index == index]
        tokens = [one for choice in own if choice.logprobs for one in choice.logprobs.content or ()]
        assert "".join(one.token for one in tokens) == "hello there friend"
        assert "".join(choice.delta.content or "" for choice in own) == "hello there friend"


def test_completions(ai: OpenAI) -> None:
    for stream in (False, True):
        got = ai.completions.create(model="llm", prompt="a bc d", logprobs=2, stream=stream)
        logged = [one.choices[0].logprobs for one in (got if stream else [got])]  # type: ignore[union-attr,list-item]
        said = [one for one in logged if one is not None]
        assert [token for one in said for token in one.tokens or ()] == ["a", " bc", " d"]
        assert [offset for one in said for offset in one.text_offset or ()] == [0, 1, 4]
        assert [top for one in said for top in one.top_logprobs or ()][1] == pytest.approx(
            {" bc": -math.log(2), " other1": -2 * math.log(2)}
        )
    none = ai.completions.create(model="llm", prompt="a", logprobs=0).choices[0].logprobs
    assert none is not None
    assert none.token_logprobs == pytest.approx([-math.log(2)])
    assert none.top_logprobs is None


def test_no_alternatives_need_no_logprobs(ai: OpenAI) -> None:
    answer = ai.chat.completions.create(model="llm", messages=HELLO, extra_body={"top_logprobs": 0})
    assert answer.choices[0].logprobs is None


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"top_logprobs": 3}, "top_logprobs needs logprobs to be true"),
        ({"logprobs": True, "top_logprobs": 21}, "top_logprobs must lie between 0 and 20"),
        ({"logprobs": 21}, "logprobs must lie between 0 and 20"),
        ({"logprobs": "yes"}, "logprobs must be a number"),
    ],
)
def test_chat_refuses(ai: OpenAI, settings: dict[str, object], told: str) -> None:
    with pytest.raises(openai.BadRequestError, match=told):
        ai.chat.completions.create(model="llm", messages=HELLO, extra_body=settings)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"logprobs": 21}, "logprobs must lie between 0 and 20"),
        ({"logprobs": 1, "echo": True}, "together with echo"),
    ],
)
def test_completions_refuse(ai: OpenAI, settings: dict[str, object], told: str) -> None:
    with pytest.raises(openai.BadRequestError, match=told):
        ai.completions.create(model="llm", prompt="a", extra_body=settings)


def test_parts_of_characters() -> None:
    tokens = [TokenLogprob(Candidate(piece, -1.0), (Candidate(b"\xc3", -0.5),)) for piece in (b"\xc3", b"\xa9", b"x")]
    logged = CompletionLogprobs().feed(tokens)
    assert logged is not None
    assert logged["tokens"] == ["bytes:\\xc3", "bytes:\\xa9", "x"]
    assert logged["text_offset"] == [0, 0, 1]
    assert logged["top_logprobs"][2] == {"bytes:\\xc3": -0.5, "x": -1.0}, "the token itself is always there"
    chat = chat_logprobs(tokens)
    assert chat is not None
    assert [one["bytes"] for one in chat["content"]] == [[0xC3], [0xA9], [0x78]]


@pytest.mark.parametrize("count", [0, 1])
def test_completions_write_log_probabilities_beside_the_loop(
    ai: OpenAI, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Eight answers of 4,096 tokens each take 0.3 s."""
    threads: list[str] = []
    whole = TextChoice.whole

    def noted(choice: TextChoice) -> dict[str, Any]:
        threads.append(threading.current_thread().name)
        return whole(choice)

    monkeypatch.setattr(TextChoice, "whole", noted)
    ai.completions.create(model="llm", prompt="a", logprobs=count)
    assert threads == ["edgeserve the writing of answers"]


def streamed_chat() -> Any:
    return Completion(
        "fake",
        [ChatChoice(0, Style(logprobs=20))],
        1,
        stream=True,
        usage_wanted=False,
        kept=1,
        timings=Timings(),
        timed=False,
    )


def streamed_completion() -> Any:
    return Answer(Asked("fake", ChatRequest()), Timings(), stream=True)


@each("make", [streamed_chat, streamed_completion])
def test_a_stream_keeps_no_log_probabilities_that_it_has_sent(make: Callable[[], Any]) -> None:
    """Eight answers of 4,096 tokens with 20 alternatives each are 100 MB, and nobody counts them."""
    made, ranked = make(), tuple(Candidate(b" word", -one / 7) for one in range(20))
    one = TokenLogprob(ranked[0], ranked)
    before = sys.getrefcount(one)
    assert b" word" in made.feed(0, TokenEvent(" word", (one,)))
    gc.collect()
    assert sys.getrefcount(one) == before


def test_a_long_answer_is_written_token_by_token(monkeypatch: pytest.MonkeyPatch) -> None:
    """Writing 8,000 tokens with 20 alternatives each in one call of C let nobody else run for most of a second."""
    ranked = tuple(Candidate(f" wörd{one}".encode(), -one / 7) for one in range(20))
    made = Completion(
        "fake",
        [ChatChoice(0, Style(logprobs=20))],
        1,
        stream=False,
        usage_wanted=False,
        kept=1,
        timings=Timings(),
        timed=False,
    )
    for _ in range(100):
        made.feed(0, TokenEvent(" wörd0", (TokenLogprob(ranked[0], ranked),)))
    made.feed(0, FinishEvent("stop", 5, 100))
    pieces: list[str] = []
    dumps = json.dumps

    def noted(value: object, **settings: bool) -> str:
        pieces.append(dumps(value, **settings))  # type: ignore[arg-type]
        return pieces[-1]

    with monkeypatch.context() as patched:
        patched.setattr(json, "dumps", noted)
        whole = made.end().decode()
    assert max(map(len, pieces)) < len(whole) / 50
    assert whole == dumps(json.loads(whole), ensure_ascii=False)
    assert len(json.loads(whole)["choices"][0]["logprobs"]["content"]) == 100
