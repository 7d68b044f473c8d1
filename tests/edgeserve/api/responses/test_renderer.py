"""The renderer of Responses with many log probabilities: they are written once, and each event as it is asked for."""

from __future__ import annotations

import json
import tracemalloc
from collections.abc import Iterator
from typing import Any

from support.cases import each

from edgeserve.api.responses.renderer import ResponseAnswer
from edgeserve.errors import EngineFailure
from edgeserve.messages import (
    Candidate,
    Event,
    FinishEvent,
    ReasoningEvent,
    TokenEvent,
    TokenLogprob,
    ToolCall,
    ToolCallEvent,
)

TOKENS = 40


def token(number: int) -> TokenEvent:
    top = tuple(Candidate(f" other {at}".encode(), -1.0 - at) for at in range(20))
    own = TokenLogprob(Candidate(f" 語{number}".encode(), -0.5), top)
    return TokenEvent(f" 語{number}", logprobs=(own,))


def fed(answer: ResponseAnswer, *events: Event) -> list[bytes]:
    """The parts that the events add."""
    return [part for event in events for part in answer.feed(0, event)]


def told(parts: Iterator[bytes] | list[bytes]) -> list[dict[str, Any]]:
    lines = b"".join(parts).decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def test_the_end_of_a_stream_comes_in_parts_of_one_event() -> None:
    """One text of all events would be four times as large, and wait for a reader that may be slow."""
    answer = ResponseAnswer("llm", {}, stream=True, keep=None)
    deltas = told(fed(answer, *map(token, range(TOKENS))))
    logged = [one for event in deltas for one in event.get("logprobs", ())]
    parts = list(answer.end())
    assert max(part.count(b"event: ") for part in parts) == 1
    said, part, item, last = told(parts)
    assert [one["top_logprobs"][19]["token"] for one in logged] == [" other 19"] * TOKENS
    assert said["logprobs"] == part["part"]["logprobs"] == item["item"]["content"][0]["logprobs"] == logged
    assert last["response"]["output"] == [item["item"]]
    assert last["response"]["output"][0]["status"] == "completed"


def test_log_probabilities_are_kept_as_text() -> None:
    """As values they would take five times the memory of their text, for each of 8,000 tokens."""
    answer = ResponseAnswer("llm", {}, stream=True, keep=None)
    fed(answer, *map(token, range(10 * TOKENS)))
    tracemalloc.start()
    try:
        longest = max(map(len, answer.end()))
        assert tracemalloc.get_traced_memory()[1] < 10 * longest
    finally:
        tracemalloc.stop()


@each("following", [ToolCallEvent(ToolCall("f", "{}")), ReasoningEvent("hm")])
def test_the_end_of_a_message_within_a_stream_comes_in_parts_of_one_event(following: Event) -> None:
    """A call behind 8,000 tokens with log probabilities came in one text of 37 MB."""
    answer = ResponseAnswer("llm", {}, stream=True, keep=None)
    fed(answer, *map(token, range(TOKENS)))
    parts = answer.feed(0, following)
    ended = [next(parts) for _ in range(3)]
    assert [part.count(b"event: ") for part in ended] == [1, 1, 1]
    said, part, item = told(ended)
    assert len(said["logprobs"]) == TOKENS
    assert said["logprobs"] == part["part"]["logprobs"] == item["item"]["content"][0]["logprobs"]
    rest = list(parts)
    assert max(map(len, rest)) < min(map(len, ended)), "what follows is written apart"
    numbers = [one["sequence_number"] for one in (said, part, item, *told(rest))]
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))


def test_a_whole_response_and_a_failed_one_hold_the_same_log_probabilities() -> None:
    whole, failed = (ResponseAnswer("llm", {}, stream=stream, keep=None) for stream in (False, True))
    for answer in (whole, failed):
        fed(answer, *map(token, range(TOKENS)))
    fed(whole, FinishEvent("length", 1, TOKENS))
    response = json.loads(b"".join(whole.end()))
    (last,) = told([failed.fail(EngineFailure("the runtime fell over"))])
    assert (response["status"], last["response"]["status"]) == ("incomplete", "failed")
    parts = [one["output"][0]["content"][0] for one in (response, last["response"])]
    assert parts[0] == parts[1]
    assert len(parts[0]["logprobs"]) == TOKENS
    assert response["output"][0]["status"] == last["response"]["output"][0]["status"] == "incomplete"


def test_a_kept_response_is_the_one_that_is_told() -> None:
    kept: list[bytes] = []

    def keep(name: str, body: bytes, output: object) -> bool:
        kept.append(body)
        return True

    answer = ResponseAnswer("llm", {}, stream=True, keep=keep)
    fed(answer, token(1))
    assert told(answer.end())[-1]["response"] == json.loads(kept[0])
