"""The renderer of llama-server's own completion, whole and streamed."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from edgeserve.api import failures, sse
from edgeserve.api.timings import Timings
from edgeserve.dataclass import dataclass
from edgeserve.errors import EdgeserveError
from edgeserve.messages import (
    Candidate,
    ChatRequest,
    Event,
    FinishEvent,
    PromptEvent,
    ReasoningEvent,
    TokenEvent,
    TokenLogprob,
)

STOP_TYPES = {"length": "limit", "stop": "eos"}
SETTINGS = ("temperature", "top_p", "top_k", "min_p", "seed", "repeat_penalty", "presence_penalty", "frequency_penalty")


@dataclass(frozen=True, slots=True)
class Asked:
    """A request and the wishes about its answer. ``fields``: paths of the only fields to send; none: all."""

    model: str
    request: ChatRequest
    fields: tuple[str, ...] = ()


class Answer:
    """Folds the events of one completion."""

    def __init__(self, asked: Asked, timings: Timings, *, stream: bool) -> None:
        self.stream = stream
        self.media_type = sse.MEDIA_TYPE if stream else "application/json"
        self._asked = asked
        self._timings = timings
        self._texts: list[str] = []
        self._logged: list[TokenLogprob] = []
        self._finish = FinishEvent("stop", 0, 0)
        self._told = 0

    def feed(self, index: int, event: Event) -> bytes:
        if isinstance(event, FinishEvent):
            self._finish = event
        if isinstance(event, PromptEvent) and self.stream:
            return self._progress(event)
        if not isinstance(event, TokenEvent | ReasoningEvent):
            return b""
        self._timings.token()
        logged = event.logprobs if isinstance(event, TokenEvent) else ()
        self._told += len(logged) or 1
        self._texts.append(event.text)
        if not self.stream:
            self._logged += logged
            return b""
        part = self._part(event.text)
        part |= {"tokens_predicted": self._told, "tokens_evaluated": self._finish.prompt_tokens}
        return sse.event(self._chosen(part | _probabilities(logged)))

    def _progress(self, event: PromptEvent) -> bytes:
        """The event of a prompt that is read, with llama-server's ``prompt_progress``."""
        part = self._part("") | {"tokens_predicted": 0, "tokens_evaluated": event.tokens}
        return sse.event(part | {"prompt_progress": self._timings.progress(event)})

    def _part(self, text: str) -> dict[str, Any]:
        return {"index": 0, "content": text, "tokens": [], "id_slot": self._asked.request.slot, "stop": False}

    def end(self) -> bytes:
        text, finish, request = "".join(self._texts), self._finish, self._asked.request
        whole = {
            "index": 0,
            "content": "" if self.stream else text,
            "tokens": [],
            "id_slot": finish.slot,
            "stop": True,
            "model": self._asked.model,
            "tokens_predicted": finish.completion_tokens,
            "tokens_evaluated": finish.prompt_tokens,
            "generation_settings": _settings(request),
            "prompt": request.prompt if isinstance(request.prompt, str) else "",
            "has_new_line": "\n" in text,
            "truncated": False,
            "stop_type": "word" if finish.stop else STOP_TYPES.get(finish.reason, "none"),
            "stopping_word": finish.stop,
            "tokens_cached": finish.cached_tokens,
            "timings": self._timings.told(finish),
        }
        if not self.stream:
            whole |= _probabilities(self._logged)
        chosen = self._chosen(whole)
        return sse.event(chosen) if self.stream else json.dumps(chosen, ensure_ascii=False).encode()

    def fail(self, error: EdgeserveError) -> bytes:
        return sse.event(failures.body(error))

    def _chosen(self, told: dict[str, Any]) -> dict[str, Any]:
        paths = self._asked.fields
        return {path: value for path in paths for value in _at(told, path)} if paths else told


def _at(told: dict[str, Any], path: str) -> list[Any]:
    """The value at a path such as "timings/prompt_n"; none where there is no such field."""
    value: Any = told
    for name in path.split("/"):
        if not isinstance(value, dict) or name not in value:
            return []
        value = value[name]
    return [value]


def _settings(request: ChatRequest) -> dict[str, Any]:
    """The parameters that the request gives; for others the model's own hold."""
    given = request.sampling
    told = {name: value for name in SETTINGS if (value := getattr(given, name)) is not None}
    limit = -1 if request.max_tokens is None else request.max_tokens
    return {**told, "n_predict": limit, "stop": list(request.stop), "n_probs": request.logprobs or 0}


def _probabilities(logged: Sequence[TokenLogprob]) -> dict[str, Any]:
    if not logged:
        return {}
    rows = [{**_candidate(one.token), "top_logprobs": [_candidate(other) for other in one.top]} for one in logged]
    return {"completion_probabilities": rows}


def _candidate(one: Candidate) -> dict[str, Any]:
    return {"token": one.text, "bytes": list(one.data), "logprob": one.logprob}
