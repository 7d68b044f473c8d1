"""OpenAI's chat completions and completions: one renderer for both, whole and streamed."""

from __future__ import annotations

import dataclasses
import json
import re
import secrets
import time
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

import edgeserve
from edgeserve.api import failures, keep_alive, models, sse
from edgeserve.api.conversation import read_messages
from edgeserve.api.fields import Fields, read_json
from edgeserve.api.limits import Limits
from edgeserve.api.line import Call
from edgeserve.errors import EdgeserveError, NotSupported
from edgeserve.messages import ChatRequest, Event, FinishEvent, Sampling, TokenEvent

MAX_TOKENS = 1_000_000
TOKEN_ID = re.compile(r"[0-9]{1,9}")
COMMON = {"model", "stream", "stream_options", "n", "seed", "stop", "temperature", "top_p", "top_k", "min_p"}
COMMON |= {"repeat_penalty", "presence_penalty", "frequency_penalty", "logit_bias", "max_tokens", "logprobs", "user"}
COMMON |= {keep_alive.FIELD}
CHAT = COMMON | {"messages", "max_completion_tokens", "response_format", "top_logprobs", "tools", "tool_choice"}
CHAT |= {"functions", "function_call", "audio", "prediction"}
IGNORED = {"metadata", "store", "service_tier", "parallel_tool_calls", "reasoning_effort", "safety_identifier"}
IGNORED |= {"prompt_cache_key", "prompt_cache_retention", "verbosity", "modalities", "web_search_options"}
COMPLETION = COMMON | {"prompt", "echo", "suffix", "best_of"}


async def chat(request: Request) -> Call:
    fields = await read_json(request)
    fields.only(CHAT | IGNORED)
    _later(fields, ("tools", "tool_choice", "functions", "function_call", "audio", "prediction", "top_logprobs"))
    limits: Limits = request.app.state.limits
    messages = read_messages(fields, limits)
    job = models.choose(request.app.state.pool, fields.text("model"), models.answering_chat(messages))
    tokens = fields.integer("max_completion_tokens", 1, MAX_TOKENS) or fields.integer("max_tokens", 1, MAX_TOKENS)
    base = ChatRequest(
        messages=messages,
        max_tokens=tokens,
        stop=_stop(fields),
        sampling=_sampling(fields),
        json_object=_json_object(fields),
    )
    count = fields.integer("n", 1, limits.max_choices) or 1
    renderer = Completion(_name(request, job), fields, ChatShape(), count)
    return Call(job, _choices(base, count), renderer, keep_alive.read(fields))


async def completions(request: Request) -> Call:
    fields = await read_json(request)
    fields.only(COMPLETION | IGNORED)
    _later(fields, ("suffix",))
    limits: Limits = request.app.state.limits
    count = fields.integer("n", 1, limits.max_choices) or 1
    if (fields.integer("best_of", 1, 20) or count) > count:
        raise NotSupported("best_of above n is not supported by this version", param="best_of")
    prompts = fields.texts("prompt", limits.max_choices)
    if not prompts or not all(prompts):
        raise fields.error("prompt", "is required and must not be empty")
    job = models.choose(request.app.state.pool, fields.text("model"), ("llm", "vision"))
    bases = [
        ChatRequest(
            prompt=prompt,
            max_tokens=fields.integer("max_tokens", 1, MAX_TOKENS) or 16,  # OpenAI's default
            stop=_stop(fields),
            sampling=_sampling(fields),
        )
        for prompt in prompts
    ]
    requests = [one for base in bases for one in _choices(base, count)]
    echo = [one.prompt or "" for one in requests] if fields.flag("echo") else []
    renderer = Completion(_name(request, job), fields, TextShape(echo), count)
    return Call(job, requests, renderer, keep_alive.read(fields))


def _name(request: Request, job: str) -> str:
    configured = request.app.state.pool.configured
    return str(configured[job].name) if job in configured else ""


def _later(fields: Fields, names: Sequence[str]) -> None:
    for name in names:
        if fields.has(name) and fields.raw(name) not in ([], "none", 0):
            raise NotSupported(f"{name} is not supported by this version", param=name)
    if fields.raw("logprobs") not in (None, False):
        raise NotSupported("logprobs are not supported by this version", param="logprobs")


def _stop(fields: Fields) -> tuple[str, ...]:
    return tuple(one for one in fields.texts("stop", 4) if one)


def _sampling(fields: Fields) -> Sampling:
    return Sampling(
        temperature=fields.number("temperature", 0, 2),
        top_p=fields.number("top_p", 0, 1),
        top_k=fields.integer("top_k", 0, 100_000),
        min_p=fields.number("min_p", 0, 1),
        presence_penalty=fields.number("presence_penalty", -2, 2),
        frequency_penalty=fields.number("frequency_penalty", -2, 2),
        repeat_penalty=fields.number("repeat_penalty", 0, 10),
        seed=fields.integer("seed", -(2**63), 2**63 - 1),
        logit_bias=_logit_bias(fields),
    )


def _logit_bias(fields: Fields) -> tuple[tuple[int, float], ...]:
    given = fields.raw("logit_bias")
    if given is None:
        return ()
    if not isinstance(given, dict) or not all(TOKEN_ID.fullmatch(token) for token in given):
        raise fields.error("logit_bias", "must be an object of token ids and numbers")
    biases = Fields(given, "logit_bias.")
    return tuple((int(token), biases.number(token, -100, 100) or 0.0) for token in given)


def _json_object(fields: Fields) -> bool:
    form = fields.object("response_format")
    kind = form.required_text("type") if form else "text"
    if kind == "json_schema":
        raise NotSupported("response_format json_schema is not supported by this version", param="response_format")
    if kind not in ("text", "json_object"):
        raise fields.error("response_format", f"must be of type text or json_object, not {kind!r}")
    return kind == "json_object"


def _choices(base: ChatRequest, count: int) -> list[ChatRequest]:
    """``count`` runs of one request; a seed is counted up, so that the answers differ and can be had again."""
    seed = base.sampling.seed
    if count == 1 or seed is None:
        return [base] * count
    sampling = (dataclasses.replace(base.sampling, seed=seed + index) for index in range(count))
    return [dataclasses.replace(base, sampling=one) for one in sampling]


class ChatShape:
    """chat.completion and chat.completion.chunk."""

    prefix, whole, chunk = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def choice(self, index: int, text: str, reason: str) -> dict[str, Any]:
        message = {"role": "assistant", "content": text, "refusal": None}
        return {"index": index, "message": message, "logprobs": None, "finish_reason": reason}

    def opening(self, index: int) -> dict[str, Any] | None:
        return self._delta(index, {"role": "assistant", "content": ""})

    def delta(self, index: int, text: str) -> dict[str, Any]:
        return self._delta(index, {"content": text})

    def closing(self, index: int, reason: str) -> dict[str, Any]:
        return self._delta(index, {}, reason)

    @staticmethod
    def _delta(index: int, delta: dict[str, str], reason: str | None = None) -> dict[str, Any]:
        return {"index": index, "delta": delta, "logprobs": None, "finish_reason": reason}


class TextShape:
    """text_completion; ``echo`` holds the prompts to repeat before the answers, if any."""

    prefix, whole, chunk = "cmpl", "text_completion", "text_completion"

    def __init__(self, echo: Sequence[str]) -> None:
        self._echo = echo

    def choice(self, index: int, text: str, reason: str | None) -> dict[str, Any]:
        head = self._echo[index] if self._echo else ""
        return {"index": index, "text": head + text, "logprobs": None, "finish_reason": reason}

    def opening(self, index: int) -> dict[str, Any] | None:
        return self.choice(index, "", None) if self._echo else None

    def delta(self, index: int, text: str) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": None, "finish_reason": None}

    def closing(self, index: int, reason: str) -> dict[str, Any]:
        return {"index": index, "text": "", "logprobs": None, "finish_reason": reason}


class Completion:
    """Folds events into completions of either shape; ``count`` of them answer the same prompt."""

    def __init__(self, model: str, fields: Fields, shape: ChatShape | TextShape, count: int) -> None:
        self.stream = fields.flag("stream")
        self.media_type = sse.MEDIA_TYPE if self.stream else "application/json"
        options = fields.object("stream_options")
        self._usage_wanted = bool(options and options.flag("include_usage"))
        self._shape = shape
        self._count = count
        self._base = {
            "id": f"{shape.prefix}-{secrets.token_hex(12)}",
            "created": int(time.time()),
            "model": model,
            "system_fingerprint": f"edgeserve-{edgeserve.__version__}",
        }
        self._texts: dict[int, list[str]] = {}
        self._finished: dict[int, FinishEvent] = {}

    def feed(self, index: int, event: Event) -> bytes:
        out = b""
        if index not in self._texts:
            self._texts[index] = []
            out = self._chunk(self._shape.opening(index))
        if isinstance(event, TokenEvent):
            self._texts[index].append(event.text)
            out += self._chunk(self._shape.delta(index, event.text))
        elif isinstance(event, FinishEvent):
            self._finished[index] = event
            out += self._chunk(self._shape.closing(index, event.reason))
        return out

    def end(self) -> bytes:
        if self.stream:
            usage = self._base | {"object": self._shape.chunk, "choices": [], "usage": self._usage()}
            return (sse.event(usage) if self._usage_wanted else b"") + sse.DONE
        choices = [
            self._shape.choice(index, "".join(text), self._finished[index].reason)
            for index, text in self._texts.items()
        ]
        body = self._base | {"object": self._shape.whole, "choices": choices, "usage": self._usage()}
        return json.dumps(body, ensure_ascii=False).encode()

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
        }
