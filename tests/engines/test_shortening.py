"""Conversations without their oldest turns, counted in words."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as some
from support.examples import examples

from edgeserve.engines import shortening
from edgeserve.engines.shortening import shortened
from edgeserve.errors import ContextOverflow
from edgeserve.messages import ChatRequest, Message, Role, TextPart, Tool, ToolCall


def talk(*turns: tuple[Role, int], truncate: bool = True, max_tokens: int | None = None) -> ChatRequest:
    """A conversation of messages of so many words; each word is the number of its message."""
    messages = tuple(Message(role, (TextPart(f"{at} " * size),)) for at, (role, size) in enumerate(turns))
    return ChatRequest(messages, truncate=truncate, max_tokens=max_tokens)


class Attempts:
    def __init__(self) -> None:
        self.count = self.messages = 0

    def __call__(self, request: ChatRequest, limit: int) -> list[int]:
        self.count += 1
        self.messages += len(request.messages)
        words = [int(word) for one in request.messages for word in one.text.split()]
        if len(words) > limit:
            raise ContextOverflow(f"{len(words)} words; {limit} fit")
        return sorted(set(words))


LONG: Sequence[tuple[Role, int]] = [("system", 2), *[("user", 4), ("assistant", 4)] * 50, ("user", 4)]


def test_a_conversation_that_fits_is_tried_once() -> None:
    attempts = Attempts()
    assert shortened(talk(("user", 3), ("assistant", 3), ("user", 3)), attempts, 100) == [0, 1, 2]
    assert attempts.count == 1


@pytest.mark.parametrize("limit", [60, 100, 400])
def test_the_oldest_turns_go_and_as_many_stay_as_fit(limit: int) -> None:
    attempts = Attempts()
    kept = shortened(talk(*LONG), attempts, limit)
    room = limit - limit // 4
    assert kept == [0, *range(kept[1], len(LONG))]
    assert LONG[kept[1]][0] == "user"
    assert room - 8 < 2 + 4 * (len(kept) - 1) <= room
    assert attempts.count < 12
    assert attempts.messages < 8 * len(LONG)


@examples(60)
@given(some.integers(0, 300), some.integers(1, 300), some.integers(4, 900))
def test_a_search_reads_no_more_messages_than_it_may(system: int, turns: int, limit: int) -> None:
    """System messages are a part of every attempt, and a thousand turns of a word may fit."""
    attempts, kept, whole = Attempts(), 0, system + turns
    request = talk(*[("system", 1)] * system, *[("user", 1)] * turns, max_tokens=1)
    with pytest.MonkeyPatch.context() as patch, contextlib.suppress(ContextOverflow):
        patch.setattr(shortening, "TRIED", 30)
        kept = len(shortened(request, attempts, limit))
    assert (
        attempts.messages <= whole + (30 + whole) + whole
    )  # the whole, the search with its last attempt, the last turn
    assert bool(kept) is (system + 1 <= limit)


def test_a_search_reads_no_more_text_than_it_may() -> None:
    """White space has many characters a token, so the tokens bound no text."""
    sizes = list[int]()

    def attempt(request: ChatRequest, limit: int) -> int:
        sizes.append(sum(len(one.text) for one in request.messages))
        if sizes[-1] > 64 * limit:
            raise ContextOverflow("too long")
        return len(request.messages)

    request = ChatRequest((Message("user", (TextPart(" " * 640),)),) * 250, max_tokens=1, truncate=True)
    kept = shortened(request, attempt, 1001)
    _, *search = sizes
    assert sum(search[:-1]) < shortening.TRIED_TEXT * 1001
    assert kept == 64, "the latest turns of the attempts that were made"


def test_tools_and_calls_are_a_part_of_the_text_of_each_attempt() -> None:
    attempts, limit = 0, 1001

    def attempt(request: ChatRequest, limit: int) -> int:
        nonlocal attempts
        attempts += 1
        if len(request.messages) > 200:
            raise ContextOverflow("too long")
        return len(request.messages)

    share = " " * (shortening.TRIED_TEXT * limit // 2)
    tool = Tool("f", share)
    assert shortened(ChatRequest((Message("user", ()),) * 250, tools=(tool,), truncate=True), attempt, limit) == 2
    assert attempts == 1 + 2, "the whole, and the search"
    calls = Message("system", (), (ToolCall("f", share),))
    assert shortened(ChatRequest((calls, *(Message("user", ()),) * 250), truncate=True), attempt, limit) == 3


@examples(60)
@given(some.integers(1, 300), some.integers(3, 400))
def test_as_many_turns_stay_as_fit(turns: int, limit: int) -> None:
    kept = shortened(talk(*[("user", 1)] * turns, max_tokens=1), Attempts(), limit + 1)
    assert len(kept) == min(turns, limit)


def test_a_short_answer_needs_less_room() -> None:
    kept = [len(shortened(talk(*LONG, max_tokens=most), Attempts(), 100)) for most in (None, 50, 1)]
    assert kept[0] == kept[1] < kept[2]


def test_a_result_never_loses_its_call() -> None:
    turns = (("user", 9), ("assistant", 9), ("user", 2), ("assistant", 2), ("tool", 2))
    request = talk(*turns)
    call = Message("assistant", (), (ToolCall("add", "{}", "call_1"),))
    messages = (*request.messages[:3], call, Message("tool", (TextPart("4 4"),), (), "call_1"))
    kept = shortened(ChatRequest(messages, truncate=True), lambda one, limit: check(one, limit), 10)
    assert [one.role for one in kept.messages] == ["user", "assistant", "tool"]


def check(request: ChatRequest, limit: int) -> ChatRequest:
    Attempts()(request, limit)
    return request


def test_a_last_turn_may_take_the_room_of_the_answer_but_no_more() -> None:
    assert shortened(talk(("user", 50), ("user", 95)), Attempts(), 100) == [1]
    with pytest.raises(ContextOverflow, match="120 words; 100 fit"):
        shortened(talk(("user", 50), ("user", 120)), Attempts(), 100)


def test_nothing_is_left_out_unasked() -> None:
    with pytest.raises(ContextOverflow, match="406 words; 100 fit"):
        shortened(talk(*LONG, truncate=False), Attempts(), 100)


def test_a_prompt_of_text_has_no_turns() -> None:
    with pytest.raises(ContextOverflow):
        shortened(ChatRequest(prompt="a", truncate=True), lambda one, limit: overflow(), 100)


def overflow() -> None:
    raise ContextOverflow("too long")
