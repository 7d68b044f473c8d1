"""Memory of an event on its way to its reader."""

from __future__ import annotations

from edgeserve.messages import (
    AudioEvent,
    EmbeddingEvent,
    Event,
    ReasoningEvent,
    Rest,
    SegmentEvent,
    TextEvent,
    TokenEvent,
    ToolCallEvent,
)
from edgeserve.residency.work import Done
from edgeserve.units import KB

WINDOW = 64 * KB
"""Bytes of one answer that the worker makes ahead of the server; one event more may be under way."""
EVENT_BYTES = 200
"""Bytes of an event in memory beside its text: measured with sys.getsizeof over an event and its queue entry."""
LOGPROB_BYTES = 150
"""Bytes of one candidate of a token's log-probabilities in memory."""


def weigh(item: Event | Done) -> int:
    """Bytes of memory that an event takes, about."""
    if isinstance(item, TokenEvent):  # first, as nearly all events are tokens
        ranked = sum(1 + len(one.top) for one in item.logprobs) if item.logprobs else 0
        return EVENT_BYTES + len(item.text) + LOGPROB_BYTES * ranked
    if isinstance(item, AudioEvent):
        return EVENT_BYTES + len(item.pcm)
    if isinstance(item, EmbeddingEvent):
        return EVENT_BYTES + len(item.vector)
    if isinstance(item, ReasoningEvent):
        return EVENT_BYTES + len(item.text)
    if isinstance(item, Rest):
        return EVENT_BYTES + len(item.state)
    if isinstance(item, ToolCallEvent):
        return EVENT_BYTES + len(item.call.name) + len(item.call.arguments)
    if isinstance(item, SegmentEvent):
        return EVENT_BYTES + len(item.text) + 36 * len(item.tokens) + 120 * len(item.words)
    if isinstance(item, TextEvent):
        return EVENT_BYTES + len(item.text) + 36 * len(item.tokens) + 50 * len(item.pieces)
    return EVENT_BYTES
