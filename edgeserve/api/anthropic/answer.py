"""The renderer of this dialect: a message, whole or streamed."""

from __future__ import annotations

import json
import secrets
from typing import Any

from edgeserve.api import failures, sse
from edgeserve.api.anthropic.content import Collected, Told
from edgeserve.api.anthropic.failure import PATHS
from edgeserve.errors import EdgeserveError
from edgeserve.messages import Event, FinishEvent, PromptEvent, ReasoningEvent, TokenEvent, ToolCallEvent

PING = sse.named("ping", {"type": "ping"})
"""An event that says nothing, while a long prompt is read."""
REASONS = {"tool_calls": "tool_use", "length": "max_tokens"}


class MessageAnswer:
    """Folds the events of one answer into a message. ``thoughts``: the message includes the thoughts."""

    def __init__(self, model: str, *, stream: bool, thoughts: bool) -> None:
        self.stream = stream
        self.media_type = sse.MEDIA_TYPE if stream else "application/json"
        self._model = model
        self._thoughts = thoughts
        self._content = Told() if stream else Collected()
        self._prompt = PromptEvent(0)
        self._finish: FinishEvent | None = None
        self._begun = self._said = False
        self._blank = ""
        """White space at the beginning of a text, held back: a block of nothing else says nothing."""

    def feed(self, index: int, event: Event) -> bytes:
        if isinstance(event, PromptEvent):
            self._prompt = event
        opening = self._opening()
        match event:
            case TokenEvent():
                return opening + self._text(event.text)
            case ReasoningEvent() if self._thoughts:
                return opening + self._content.add("thinking", event.text)
            case ToolCallEvent():
                self._blank, self._said = "", False
                return opening + self._content.call(event.call)
            case FinishEvent():
                self._finish = event
                return opening + self._content.close() + self._ended()
        return opening

    def end(self) -> bytes:
        if self.stream:
            return sse.named("message_stop", {"type": "message_stop"})
        return json.dumps(self._message() | self._stopped() | {"usage": self._usage()}, ensure_ascii=False).encode()

    def fail(self, error: EdgeserveError) -> bytes:
        return sse.named("error", failures.body(error, PATHS))

    def _text(self, text: str) -> bytes:
        self._blank += text
        if not self._said and self._blank.isspace():
            return b""
        text, self._blank, self._said = self._blank, "", True
        return self._content.add("text", text)

    def _opening(self) -> bytes:
        """The first events of a stream."""
        if self._begun or not self.stream:
            return b""
        self._begun = True
        message = self._message() | {"stop_reason": None, "stop_sequence": None, "usage": self._usage()}
        return sse.named("message_start", {"type": "message_start", "message": message}) + PING

    def _ended(self) -> bytes:
        """The last event but one of a stream."""
        if not self.stream:
            return b""
        told = {"type": "message_delta", "delta": self._stopped(), "usage": self._usage()}
        return sse.named("message_delta", told)

    def _message(self) -> dict[str, Any]:
        return {
            "id": f"msg_{secrets.token_hex(12)}",
            "type": "message",
            "role": "assistant",
            "model": self._model,
            "content": self._content.blocks() if isinstance(self._content, Collected) else [],
        }

    def _stopped(self) -> dict[str, Any]:
        finish = self._finish
        reason, stop = (finish.reason, finish.stop or None) if finish else ("stop", None)
        natural = "stop_sequence" if stop else "end_turn"
        told = REASONS.get(reason, natural)
        return {"stop_reason": told, "stop_sequence": stop if told == "stop_sequence" else None}

    def _usage(self) -> dict[str, int]:
        """Counts of tokens. The prompt is the sum of those that a cache had, and of those that none had."""
        finish = self._finish
        prompt, cached = self._prompt.tokens, self._prompt.cached_tokens
        if finish is not None:
            prompt, cached = finish.prompt_tokens, finish.cached_tokens
        return {
            "input_tokens": prompt - cached,
            "cache_creation_input_tokens": 0,
            "cache_read_input_tokens": cached,
            "output_tokens": finish.completion_tokens if finish else 0,
        }
