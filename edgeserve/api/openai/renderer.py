"""The renderer of chat completions and completions, whole and streamed."""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, ClassVar

import edgeserve
from edgeserve.api import failures, sse
from edgeserve.api.fragments import written
from edgeserve.api.timings import Timings
from edgeserve.errors import EdgeserveError
from edgeserve.messages import (
    Event,
    FinishEvent,
    PromptEvent,
    ReasoningEvent,
    TokenEvent,
    TokenLogprob,
    ToolCall,
    ToolCallEvent,
)


class Choice(ABC):
    """One answer to a prompt: what a dialect needs of it later, and how the dialect writes it."""

    PREFIX: ClassVar[str]
    """Beginning of the completion's id."""
    WHOLE: ClassVar[str]
    """``object`` of a whole completion."""
    CHUNK: ClassVar[str]
    """``object`` of a chunk of a stream."""

    def __init__(self, index: int) -> None:
        self.index = index
        self.texts: list[str] = []
        self.thoughts: list[str] = []
        self.logprobs: list[TokenLogprob] = []
        self.calls: list[ToolCall] = []
        self.finish: FinishEvent | None = None

    def add(self, event: Event, *, whole: bool) -> None:
        """Note an event. ``whole``: keep its text, too, for a whole completion."""
        if isinstance(event, ToolCallEvent):
            self.calls.append(event.call)
        elif isinstance(event, FinishEvent):
            self.finish = event
        elif whole and isinstance(event, TokenEvent):
            self.texts.append(event.text)
            self.logprobs += event.logprobs
        elif whole and isinstance(event, ReasoningEvent):
            self.thoughts.append(event.text)

    def likelihood(self) -> float:
        """The mean log probability of its tokens."""
        logged = [one.token.logprob for one in self.logprobs]
        return sum(logged) / len(logged) if logged else 0.0

    @property
    def reason(self) -> str | None:
        return self.finish.reason if self.finish else None

    @abstractmethod
    def whole(self) -> dict[str, Any]:
        """The choice of a whole completion."""

    @abstractmethod
    def opening(self) -> dict[str, Any] | None:
        """The choice of the first chunk; None where the first chunk comes with the first event."""

    @abstractmethod
    def delta(self, event: Event) -> dict[str, Any] | None:
        """The choice of the chunk for an event that was just added; None where the event adds nothing."""


class Completion:
    """Folds events into completions. ``choices`` are the answers to all prompts, ``count`` to each prompt.

    A whole completion has the ``kept`` likeliest of them, by the mean log probability of their tokens. ``timings``
    make llama-server's figures: those of the first answer at its end where it is ``timed``, and those of prompts.
    """

    def __init__(
        self,
        model: str,
        choices: Sequence[Choice],
        count: int,
        *,
        stream: bool,
        usage_wanted: bool,
        kept: int,
        timings: Timings,
        timed: bool,
    ) -> None:
        self.stream = stream
        self.media_type = sse.MEDIA_TYPE if stream else "application/json"
        self._choices = choices
        self._count, self._kept = count, kept
        self._usage_wanted = usage_wanted
        self._timings, self._is_timed = timings, timed
        self._timed: dict[str, Any] = {}
        self._opened: set[int] = set()
        self._base = {
            "id": f"{choices[0].PREFIX}-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": f"edgeserve-{edgeserve.__version__}",
        }
        if usage_wanted:
            self._base["usage"] = None  # in every chunk but the last, as OpenAI writes it
        self._chunks = sse.Chunks(self._base | {"object": choices[0].CHUNK})

    def feed(self, index: int, event: Event) -> bytes:
        choice = self._choices[index]
        choice.add(event, whole=not self.stream)
        if self._is_timed and index == 0:
            self._time(event)
        if not self.stream:
            return b""
        opening = b""
        if index not in self._opened:
            self._opened.add(index)
            opening = self._chunk(choice.opening())
        return opening + self._chunk(choice.delta(event), self._figures(index, event))

    def _figures(self, index: int, event: Event) -> dict[str, Any]:
        """llama-server's figures in the chunk of an event."""
        if isinstance(event, PromptEvent):
            return {"prompt_progress": self._timings.progress(event)}
        return self._timed if index == 0 and isinstance(event, FinishEvent) else {}

    def _time(self, event: Event) -> None:
        if isinstance(event, FinishEvent):
            self._timed = {"timings": self._timings.told(event)}
        elif not isinstance(event, PromptEvent):
            self._timings.token()

    def end(self) -> bytes:
        if self.stream:
            usage = self._base | {"object": self._choices[0].CHUNK, "choices": [], "usage": self._usage()}
            return (sse.event(usage) if self._usage_wanted else b"") + sse.DONE
        choices = [choice.whole() for choice in self._best()]
        body = self._base | {"object": self._choices[0].WHOLE, "choices": choices, "usage": self._usage()} | self._timed
        return written(body).encode()

    def _best(self) -> Iterator[Choice]:
        """The choices to send, with new indices where some are left out."""
        prompts = (self._choices[at : at + self._count] for at in range(0, len(self._choices), self._count))
        for number, choices in enumerate(prompts):
            best = choices if self._kept == self._count else sorted(choices, key=Choice.likelihood, reverse=True)
            for place, choice in enumerate(best[: self._kept]):
                choice.index = number * self._kept + place
                yield choice

    def fail(self, error: EdgeserveError) -> bytes:
        return sse.event(failures.body(error)) + sse.DONE

    def _chunk(self, choice: dict[str, Any] | None, more: Mapping[str, Any] = MappingProxyType({})) -> bytes:
        return b"" if choice is None else self._chunks.event({"choices": [choice], **more})

    def _usage(self) -> dict[str, Any]:
        # As OpenAI counts: a prompt once, however many answers it gets.
        asked = [one.finish for one in self._choices[:: self._count] if one.finish]
        ended = [one.finish for one in self._choices if one.finish]
        prompt = sum(one.prompt_tokens for one in asked)
        said = sum(one.completion_tokens for one in ended)
        return {
            "prompt_tokens": prompt,
            "completion_tokens": said,
            "total_tokens": prompt + said,
            "prompt_tokens_details": {"cached_tokens": sum(one.cached_tokens for one in asked)},
            "completion_tokens_details": {"reasoning_tokens": sum(one.reasoning_tokens for one in ended)},
        }
