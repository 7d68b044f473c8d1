"""OpenAI's chat completions, and the renderer that they share with completions, whole and streamed."""

from __future__ import annotations

import asyncio
import json
import secrets
import time
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Protocol

from starlette.requests import Request

import edgeserve
from edgeserve.api import cache_salt, failures, keep_alive, models, sse
from edgeserve.api.conversation import read_messages
from edgeserve.api.fields import NAME_CHARS, Fields
from edgeserve.api.limits import Limits
from edgeserve.api.line import Call
from edgeserve.api.openai import accepted, logprobs, sampling
from edgeserve.api.openai.response_format import ResponseFormat, read_format
from edgeserve.api.pictures.request import Pictures
from edgeserve.api.tools import body, read_choice, read_tools
from edgeserve.api.uploads import read_body
from edgeserve.errors import EdgeserveError
from edgeserve.messages import (
    ChatRequest,
    Event,
    FinishEvent,
    ReasoningEvent,
    TokenEvent,
    TokenLogprob,
    Tool,
    ToolCall,
    ToolCallEvent,
)

Logprobs = Sequence[TokenLogprob]
CHAT = sampling.FIELDS | {"messages", "max_completion_tokens", "top_logprobs"}
CHAT |= {
    cache_salt.FIELD,
    "response_format",
    "tools",
    "tool_choice",
    "parallel_tool_calls",
    "functions",
    "function_call",
}
IGNORED = accepted.NAMES


async def chat(request: Request) -> Call:
    fields, attached = await read_body(request)
    fields.only(CHAT | IGNORED)
    accepted.check(fields)
    limits: Limits = request.app.state.limits
    messages = await read_messages(fields, limits, Pictures(request, attached))
    job = models.choose(request.app.state.pool, fields.text("model", limit=NAME_CHARS), models.answering_chat(messages))
    form, tools = await asyncio.to_thread(_read_form, fields)  # beside the event loop: schemas may have megabytes
    older = fields.integer("max_tokens", 1, sampling.MAX_TOKENS)
    tokens = fields.integer("max_completion_tokens", 1, sampling.MAX_TOKENS) or older
    base = ChatRequest(
        messages=messages,
        max_tokens=tokens,
        stop=sampling.read_stop(fields),
        sampling=sampling.read(fields),
        json_object=form.json_object,
        json_schema=form.json_schema,
        tools=tools,
        tool_choice=read_choice(fields, tools),
        logprobs=logprobs.read_chat(fields),
        salt=cache_salt.read(request, fields),
    )
    count = fields.integer("n", 1, limits.max_choices) or 1
    renderer = Completion(models.name(request.app.state.pool, job), fields, ChatShape(), count)
    requests, seconds = sampling.choices(base, count), keep_alive.read(fields)
    return Call(job, requests, renderer, seconds, apart=fields.has("seed"), threaded=renderer.computes)


def _read_form(fields: Fields) -> tuple[ResponseFormat, tuple[Tool, ...]]:
    """The form that the answer must have, and the tools that it may call."""
    return read_format(fields), read_tools(fields)


class ChatShape:
    """chat.completion and chat.completion.chunk."""

    prefix, whole, chunk = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def choice(self, index: int, text: str, reason: str, thoughts: str, tokens: Logprobs) -> dict[str, Any]:
        message = {"role": "assistant", "content": text, "refusal": None}
        if thoughts:
            message["reasoning_content"] = thoughts
        logged = logprobs.chat_logprobs(tokens)
        return {"index": index, "message": message, "logprobs": logged, "finish_reason": reason}

    @staticmethod
    def with_calls(choice: dict[str, Any], calls: Sequence[ToolCall]) -> dict[str, Any]:
        message = choice["message"]
        message |= {"content": message["content"] or None, "tool_calls": [body(call) for call in calls]}
        return choice

    def opening(self, index: int) -> dict[str, Any] | None:
        return self._delta(index, {"role": "assistant", "content": ""})

    def delta(self, index: int, event: TokenEvent | ReasoningEvent) -> dict[str, Any]:
        if isinstance(event, ReasoningEvent):
            return self._delta(index, {"reasoning_content": event.text})
        return self._delta(index, {"content": event.text}) | {"logprobs": logprobs.chat_logprobs(event.logprobs)}

    def closing(self, index: int, reason: str) -> dict[str, Any]:
        return self._delta(index, {}, reason)

    def call(self, index: int, number: int, call: ToolCall) -> dict[str, Any]:
        """The ``number``-th call of an answer."""
        return self._delta(index, {"tool_calls": [{"index": number, **body(call)}]})

    @staticmethod
    def _delta(index: int, delta: dict[str, Any], reason: str | None = None) -> dict[str, Any]:
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}


class Shape(Protocol):
    """How a dialect writes a choice: whole, and in the chunks of a stream."""

    @property
    def prefix(self) -> str: ...

    @property
    def whole(self) -> str: ...

    @property
    def chunk(self) -> str: ...

    def choice(self, index: int, text: str, reason: str, thoughts: str, tokens: Logprobs) -> dict[str, Any]: ...

    def opening(self, index: int) -> dict[str, Any] | None: ...

    def delta(self, index: int, event: TokenEvent | ReasoningEvent) -> dict[str, Any]: ...

    def closing(self, index: int, reason: str) -> dict[str, Any]: ...


class Completion:
    """Folds events into completions of either shape; ``count`` of them answer the same prompt."""

    def __init__(self, model: str, fields: Fields, shape: Shape, count: int) -> None:
        self.stream = fields.flag("stream")
        self._logged = bool(fields.raw("logprobs"))
        self.media_type = sse.MEDIA_TYPE if self.stream else "application/json"
        self._usage_wanted = _usage_wanted(fields)
        self._shape = shape
        self._count = count
        self._base = {
            "id": f"{shape.prefix}-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": f"edgeserve-{edgeserve.__version__}",
        }
        if self._usage_wanted:
            self._base["usage"] = None  # in every chunk but the last, as OpenAI writes it
        self._texts: dict[int, list[str]] = {}
        self._thoughts = defaultdict[int, list[str]](list)
        self._logprobs = defaultdict[int, list[TokenLogprob]](list)
        self._calls: dict[int, list[ToolCall]] = {}
        self._finished: dict[int, FinishEvent] = {}

    def feed(self, index: int, event: Event) -> bytes:
        out = b""
        if index not in self._texts:
            self._texts[index], self._calls[index] = [], []
            out = self._chunk(self._shape.opening(index))
        if isinstance(event, TokenEvent):
            self._texts[index].append(event.text)
            self._logprobs[index] += event.logprobs
        elif isinstance(event, ReasoningEvent):
            self._thoughts[index].append(event.text)
        if self.stream and isinstance(event, TokenEvent | ReasoningEvent):
            out += self._chunk(self._shape.delta(index, event))
        elif isinstance(event, ToolCallEvent) and isinstance(self._shape, ChatShape):
            out += self._chunk(self._shape.call(index, len(self._calls[index]), event.call))
            self._calls[index].append(event.call)
        elif isinstance(event, FinishEvent):
            self._finished[index] = event
            out += self._chunk(self._shape.closing(index, event.reason))
        return out

    def end(self) -> bytes:
        if self.stream:
            usage = self._base | {"object": self._shape.chunk, "choices": [], "usage": self._usage()}
            return (sse.event(usage) if self._usage_wanted else b"") + sse.DONE
        choices = [self._choice(index) for index in sorted(self._texts)]
        body = self._base | {"object": self._shape.whole, "choices": choices, "usage": self._usage()}
        return _written(body).encode()

    @property
    def computes(self) -> bool:
        """Whether its end takes long: a second for 8,000 tokens with 20 alternatives each."""
        return not self.stream and self._logged

    def _choice(self, index: int) -> dict[str, Any]:
        text, thoughts = "".join(self._texts[index]), "".join(self._thoughts[index])
        made = self._shape.choice(index, text, self._finished[index].reason, thoughts, self._logprobs[index])
        calls = self._calls[index]
        return self._shape.with_calls(made, calls) if calls and isinstance(self._shape, ChatShape) else made

    def fail(self, error: EdgeserveError) -> bytes:
        return sse.event(failures.body(error)) + sse.DONE

    def _chunk(self, choice: dict[str, Any] | None) -> bytes:
        if not self.stream or choice is None:
            return b""
        return sse.event(self._base | {"object": self._shape.chunk, "choices": [choice]})

    def _usage(self) -> dict[str, Any]:
        # As OpenAI counts: a prompt once, however many answers it gets.
        asked = [one for index, one in self._finished.items() if index % self._count == 0]
        prompt = sum(one.prompt_tokens for one in asked)
        said = sum(one.completion_tokens for one in self._finished.values())
        return {
            "prompt_tokens": prompt,
            "completion_tokens": said,
            "total_tokens": prompt + said,
            "prompt_tokens_details": {"cached_tokens": sum(one.cached_tokens for one in asked)},
            "completion_tokens_details": {
                "reasoning_tokens": sum(one.reasoning_tokens for one in self._finished.values())
            },
        }


def _written(value: Any, depth: int = 5) -> str:
    """JSON, as ``json.dumps`` writes it; that of each token by itself, since no other thread runs during a call."""
    if depth and isinstance(value, dict):
        items = (f"{json.dumps(name, ensure_ascii=False)}: {_written(one, depth - 1)}" for name, one in value.items())
        return "{" + ", ".join(items) + "}"
    if depth and isinstance(value, list):
        return "[" + ", ".join(_written(one, depth - 1) for one in value) + "]"
    return json.dumps(value, ensure_ascii=False)


def _usage_wanted(fields: Fields) -> bool:
    options = fields.object("stream_options")
    if options is None:
        return False
    options.only(("include_usage", "include_obfuscation"))
    if not fields.flag("stream"):
        raise fields.error("stream_options", "is only allowed when stream is true")
    return options.flag("include_usage")
