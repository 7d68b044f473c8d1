"""The renderer of chat and generate: a line for each event, or one object at the end."""

from __future__ import annotations

import json
import secrets
import string
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any

from edgeserve.api import failures
from edgeserve.api.ollama import ndjson
from edgeserve.api.ollama.failure import PATHS
from edgeserve.api.ollama.times import Times, now
from edgeserve.api.openai.logprobs import chat_logprobs
from edgeserve.dataclass import dataclass
from edgeserve.errors import EdgeserveError
from edgeserve.messages import Event, FinishEvent, ReasoningEvent, TokenEvent, TokenLogprob, ToolCall, ToolCallEvent

ID_CHARS = string.ascii_lowercase + string.digits


@dataclass(slots=True)
class Said:
    """Parts of an answer: all of it, or those of one event."""

    texts: list[str] = field(default_factory=list)
    thoughts: list[str] = field(default_factory=list)
    calls: list[dict[str, Any]] = field(default_factory=list)
    logprobs: list[TokenLogprob] = field(default_factory=list)

    def add(self, event: Event, calls: int) -> None:
        """Add what an event says; ``calls`` came before it in the answer."""
        match event:
            case TokenEvent():
                self.texts.append(event.text)
                self.logprobs += event.logprobs
            case ReasoningEvent():
                self.thoughts.append(event.text)
            case ToolCallEvent():
                self.calls.append(_call(event.call, calls))


class AnswerLines(ABC):
    """Folds the events of one answer. ``model`` is the name that the request gave."""

    def __init__(self, model: str, times: Times, *, stream: bool) -> None:
        self.stream = stream
        self.media_type = ndjson.MEDIA_TYPE if stream else "application/json"
        self._model = model
        self._times = times
        self._whole = Said()
        self._finish: FinishEvent | None = None

    @abstractmethod
    def said(self, part: Said) -> dict[str, Any]:
        """The fields of the dialect for a part of the answer."""

    def last(self, whole: Said) -> dict[str, Any]:
        """Further fields of the last object."""
        return {}

    def feed(self, index: int, event: Event) -> bytes:
        self._times.event()
        if isinstance(event, FinishEvent):
            self._finish = event
            return b""
        part = Said()
        part.add(event, len(self._whole.calls))
        self._whole.texts += part.texts
        self._whole.calls += part.calls
        if not self.stream:
            self._whole.thoughts += part.thoughts
            self._whole.logprobs += part.logprobs
            return b""
        return ndjson.line(self._head() | self._fields(part) | {"done": False})

    def end(self) -> bytes:
        ended = self._head() | self._fields(Said() if self.stream else self._whole) | self._ended()
        return ndjson.line(ended) if self.stream else ndjson.whole(ended)

    def fail(self, error: EdgeserveError) -> bytes:
        return ndjson.line(failures.body(error, PATHS))

    def _head(self) -> dict[str, Any]:
        return {"model": self._model, "created_at": now()}

    def _fields(self, part: Said) -> dict[str, Any]:
        logged = chat_logprobs(part.logprobs)
        return self.said(part) | ({"logprobs": logged["content"]} if logged else {})

    def _ended(self) -> dict[str, Any]:
        finish = self._finish
        counts = {
            "prompt_eval_count": finish.prompt_tokens if finish else 0,
            "eval_count": finish.completion_tokens if finish else 0,
        }
        return {
            "done": True,
            "done_reason": "length" if finish and finish.reason == "length" else "stop",
            **dict(self._times.durations()),
            **{name: count for name, count in counts.items() if count},
            **self.last(self._whole),
        }


class ChatLines(AnswerLines):
    """POST /api/chat."""

    def said(self, part: Said) -> dict[str, Any]:
        return {"message": message("".join(part.texts), "".join(part.thoughts), part.calls)}


def message(text: str = "", thoughts: str = "", calls: Sequence[Mapping[str, Any]] = ()) -> dict[str, Any]:
    """A message of the assistant. ``content`` is always there, the others where there is something."""
    found: dict[str, Any] = {"role": "assistant", "content": text}
    if thoughts:
        found["thinking"] = thoughts
    if calls:
        found["tool_calls"] = list(calls)
    return found


def _call(call: ToolCall, index: int) -> dict[str, Any]:
    """A call, whole. Its arguments are an object here, and a text in OpenAI's dialect."""
    name = call.id or "call_" + "".join(secrets.choice(ID_CHARS) for _ in range(8))
    function = {"index": index, "name": call.name, "arguments": json.loads(call.arguments)}
    return {"id": name, "function": function}
