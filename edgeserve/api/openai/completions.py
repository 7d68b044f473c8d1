"""OpenAI's completions: raw text or tokens continued, without a chat template."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from edgeserve.api import cache_salt, keep_alive, models
from edgeserve.api.fields import NAME_CHARS, Fields, read_json
from edgeserve.api.limits import Limits
from edgeserve.api.line import Call
from edgeserve.api.openai import accepted, logprobs, sampling
from edgeserve.api.openai.chat import Completion, Logprobs
from edgeserve.api.openai.logprobs import CompletionLogprobs
from edgeserve.api.openai.prompts import read_prompts
from edgeserve.messages import ChatRequest, ReasoningEvent, TokenEvent

COMPLETION = sampling.FIELDS | {"prompt", "echo", "suffix", "best_of", cache_salt.FIELD} | accepted.NAMES
DEFAULT_TOKENS = 16
"""OpenAI's."""


async def completions(request: Request) -> Call:
    fields = await read_json(request)
    fields.only(COMPLETION)
    accepted.check(fields)
    if fields.text("suffix"):
        raise fields.error("suffix", "is not supported by this server: text is continued, never filled in")
    limits: Limits = request.app.state.limits
    prompts = read_prompts(fields, "prompt", limits.max_choices)
    count = _count(fields, len(prompts), limits.max_choices)
    echo = _echo(fields, prompts)
    job = models.choose(request.app.state.pool, fields.text("model", limit=NAME_CHARS), ("llm", "vision"))
    base = ChatRequest(
        max_tokens=fields.integer("max_tokens", 1, sampling.MAX_TOKENS) or DEFAULT_TOKENS,
        stop=sampling.read_stop(fields),
        sampling=sampling.read(fields),
        logprobs=logprobs.read_completion(fields),
        salt=cache_salt.read(request, fields),
    )
    requests = [one for prompt in prompts for one in sampling.choices(dataclasses.replace(base, prompt=prompt), count)]
    shape = TextShape([text for text in echo for _ in range(count)])
    renderer = Completion(models.name(request.app.state.pool, job), fields, shape, count)
    seconds = keep_alive.read(fields)
    return Call(job, requests, renderer, seconds, apart=fields.has("seed"), threaded=renderer.computes)


def _count(fields: Fields, prompts: int, limit: int) -> int:
    """``n``: answers to each prompt."""
    count = fields.integer("n", 1, limit) or 1
    if count * prompts > limit:
        raise fields.error("n", f"is {count}, which makes {count * prompts} answers; the limit is {limit} a request")
    if (fields.integer("best_of", 1, 20) or count) != count:
        raise fields.error("best_of", f"is not supported by this server unless it equals n, which is {count}")
    return count


def _echo(fields: Fields, prompts: Sequence[str | tuple[int, ...]]) -> list[str]:
    """Prompts to repeat before their answers, if wanted."""
    if not fields.flag("echo"):
        return []
    texts = [prompt for prompt in prompts if isinstance(prompt, str)]
    if len(texts) < len(prompts):
        raise fields.error("echo", "is not supported for prompts of tokens: send them as text, or leave it out")
    return texts


class TextShape:
    """text_completion; ``echo`` holds the prompts to repeat before the answers, if any."""

    prefix, whole, chunk = "cmpl", "text_completion", "text_completion"

    def __init__(self, echo: Sequence[str]) -> None:
        self._echo = echo
        self._logprobs = defaultdict[int, CompletionLogprobs](CompletionLogprobs)

    def choice(self, index: int, text: str, reason: str, thoughts: str, tokens: Logprobs) -> dict[str, Any]:
        head = self._echo[index] if self._echo else ""
        return self._choice(index, head + text, reason) | {"logprobs": self._logprobs[index].feed(tokens)}

    def opening(self, index: int) -> dict[str, Any] | None:
        return self._choice(index, self._echo[index]) if self._echo else None

    def delta(self, index: int, event: TokenEvent | ReasoningEvent) -> dict[str, Any]:
        logged = self._logprobs[index].feed(event.logprobs) if isinstance(event, TokenEvent) else None
        return self._choice(index, event.text) | {"logprobs": logged}

    def closing(self, index: int, reason: str) -> dict[str, Any]:
        return self._choice(index, "", reason)

    @staticmethod
    def _choice(index: int, text: str, reason: str | None = None) -> dict[str, Any]:
        return {"index": index, "text": text, "logprobs": None, "finish_reason": reason}
