from __future__ import annotations

from typing import Any, get_args

import pytest
from support.gates import Clock

from edgeserve import messages
from edgeserve.chat_parts import ToolCall
from edgeserve.figures.answer import READERS, Answer
from edgeserve.messages import (
    AudioEvent,
    EmbeddingEvent,
    FinishEvent,
    LoosenedEvent,
    PromptEvent,
    ReasoningEvent,
    RerankEvent,
    SegmentEvent,
    TokenEvent,
    ToolCallEvent,
    TranscriptEnd,
)


def seen(*events: Any) -> Answer:
    """An answer of these events, one a second."""
    clock = Clock(10.0)
    answer = Answer(clock)
    for event in events:
        answer.see(event)
        clock.now += 1
    return answer


def test_a_chat_by_its_last_event() -> None:
    answer = seen(
        PromptEvent(7), LoosenedEvent(("a",)), TokenEvent("one"), TokenEvent(" two"), FinishEvent("length", 7, 3, 5)
    )
    assert (answer.first, answer.end, answer.tokens) == (12.0, "length", 3)
    assert (answer.prompt_tokens, answer.cached_tokens) == (7, 5)


def test_an_answer_that_was_cut_counts_its_pieces() -> None:
    answer = seen(ReasoningEvent("hm"), TokenEvent("one"))
    assert (answer.first, answer.tokens, answer.prompt_tokens, answer.end) == (10.0, 2, 0, "")


@pytest.mark.parametrize(
    "event", [ToolCallEvent(ToolCall("1", "f", "{}")), SegmentEvent(0, 1, "said"), AudioEvent(bytes(8), 4)]
)
def test_a_call_a_segment_and_a_sound_are_first_pieces(event: Any) -> None:
    assert seen(PromptEvent(1), event, event).first == 11.0


def test_speech_heard_and_spoken() -> None:
    assert seen(AudioEvent(bytes(48_000), 24_000), AudioEvent(bytes(24_000), 24_000)).spoken == 1.5
    assert seen(SegmentEvent(0, 2, "said"), TranscriptEnd("en", 2.5)).heard == 2.5
    assert seen(messages.SpeakerEvent(0, 3.5, 1), messages.SpeakerEvent(1, 2, 0)).heard == 3.5


def test_embeddings_and_ranks_read_tokens_and_have_no_first_one() -> None:
    for answer in (
        seen(EmbeddingEvent(b"", 3), EmbeddingEvent(b"", 4)),
        seen(RerankEvent(0.5, 3), RerankEvent(0.5, 4)),
    ):
        assert (answer.prompt_tokens, answer.tokens, answer.first) == (7, 0, None)


def test_every_event_is_known_or_left_out_on_purpose() -> None:
    known = {*READERS, TokenEvent, ReasoningEvent}
    assert {one for one in get_args(messages.Event) if one not in known} == {
        PromptEvent,
        LoosenedEvent,
        messages.SlotEvent,
        messages.TextEvent,
        messages.Rest,  # no reader gets it
        messages.ReadEvent,  # nor this
    }
