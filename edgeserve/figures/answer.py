"""Times and sizes of one answer of an engine, gathered from its events."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from edgeserve import messages
from edgeserve.dataclass import dataclass
from edgeserve.messages import Event


@dataclass(frozen=True, slots=True)
class Times:
    """Times of one answer in seconds, on one clock. ``started``: its turn on a hot engine; None where it had none."""

    arrived: float
    started: float | None
    ended: float


class Answer:
    """One answer under way. ``clock`` in seconds. The thread of the host alone calls ``see``.

    - ``first``: when the first token, segment or sound came; None before
    - ``pieces``: events of text. An answer that is cut has no other count of its tokens
    - ``end``: reason of the end as the engine gave it; empty before, and for engines that give none
    - ``heard``, ``spoken``: seconds of sound
    """

    __slots__ = (
        "_clock", "cached_tokens", "completion_tokens", "end", "first", "heard", "pieces", "prompt_tokens", "spoken",
    )  # fmt: skip

    def __init__(self, clock: Callable[[], float]) -> None:
        self._clock = clock
        self.first: float | None = None
        self.end = ""
        self.pieces = self.prompt_tokens = self.cached_tokens = self.completion_tokens = 0
        self.heard = self.spoken = 0.0

    def see(self, event: Event) -> None:
        """Note one event. For a token: a comparison and an addition, and no look at the clock but the first."""
        kind = type(event)
        if kind is messages.TokenEvent or kind is messages.ReasoningEvent:
            self.pieces += 1
            if self.first is None:
                self.first = self._clock()
        elif (read := READERS.get(kind)) is not None:
            read(self, event)

    @property
    def tokens(self) -> int:
        """Tokens of the answer; of one that was cut, at least so many."""
        return self.completion_tokens or self.pieces

    def begin(self) -> None:
        if self.first is None:
            self.first = self._clock()


def _call(answer: Answer, event: Any) -> None:
    answer.begin()


def _finish(answer: Answer, event: messages.FinishEvent) -> None:
    answer.end = event.reason
    answer.prompt_tokens, answer.cached_tokens = event.prompt_tokens, event.cached_tokens
    answer.completion_tokens = event.completion_tokens


def _read(answer: Answer, event: messages.EmbeddingEvent | messages.RerankEvent) -> None:
    answer.prompt_tokens += event.tokens


def _speak(answer: Answer, event: messages.AudioEvent) -> None:
    answer.begin()
    answer.spoken += len(event.pcm) / 2 / event.sample_rate


def _hear(answer: Answer, event: messages.TranscriptEnd) -> None:
    answer.heard = event.duration


def _tell_apart(answer: Answer, event: messages.SpeakerEvent) -> None:
    answer.begin()
    answer.heard = max(answer.heard, event.end)


READERS: dict[type, Callable[[Answer, Any], None]] = {
    messages.ToolCallEvent: _call,
    messages.SegmentEvent: _call,
    messages.FinishEvent: _finish,
    messages.EmbeddingEvent: _read,
    messages.RerankEvent: _read,
    messages.AudioEvent: _speak,
    messages.TranscriptEnd: _hear,
    messages.SpeakerEvent: _tell_apart,
}
"""By kind of event, tokens aside."""
