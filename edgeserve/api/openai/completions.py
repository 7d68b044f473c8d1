"""OpenAI's completions: raw text or tokens continued, without a chat template."""

from __future__ import annotations

import dataclasses
from typing import Any

from starlette.requests import Request

from edgeserve.api import models
from edgeserve.api.json_body import read_json
from edgeserve.api.limits import limits_of
from edgeserve.api.line import Call
from edgeserve.api.openai import sampling
from edgeserve.api.openai.call import completion_call
from edgeserve.api.openai.logprobs import CompletionLogprobs, Logged
from edgeserve.api.openai.prompts import Prompts
from edgeserve.api.openai.renderer import Choice
from edgeserve.api.openai.sampling import Sampled
from edgeserve.api.values import Flag, Text
from edgeserve.jobs import CHAT
from edgeserve.messages import ChatRequest, Event, FinishEvent, PromptEvent, ReasoningEvent, TokenEvent

DEFAULT_TOKENS = 16
"""Tokens of an answer where the request sets no limit, as in OpenAI's API."""


class RawCompletion(Sampled):
    """The body of POST /v1/completions."""

    prompt = Prompts("a text, several, its tokens, or several lists of tokens", lambda limits: limits.max_choices)
    echo = Flag("repeat the prompt, which must be text; without logprobs")
    logprobs = Logged()
    suffix = Text("text behind a gap after the prompt, which the answer fills; with prompts of text, without echo")

    def check(self, limit: int) -> None:
        """Raises InvalidRequest for fields that do not go together, and for more than ``limit`` answers."""
        prompts, runs = len(self.prompt), self.runs()
        if runs * prompts > limit:
            text = f"is {runs}, which makes {runs * prompts} answers; the limit is {limit} a request"
            raise self.error("n" if runs == self.n else "best_of", text)
        if self.echo and self.logprobs is not None:
            raise self.error("logprobs", "is not supported together with echo: leave one of them out")
        if self.echo and self.suffix:
            raise self.error("echo", "is not supported together with suffix: leave one of them out")

    def heads(self) -> list[str]:
        """The texts before the answers to each prompt: the prompt with ``echo``, else nothing.

        Raises InvalidRequest for a prompt of tokens with ``echo``.
        """
        texts = [prompt for prompt in self.prompt if isinstance(prompt, str)]
        if self.echo and len(texts) < len(self.prompt):
            text = "is not supported for prompts of tokens: send them as text, or leave it out"
            raise self.error("echo", text)
        return texts if self.echo else [""] * len(self.prompt)


async def completions(request: Request) -> Call:
    asked = await read_json(request, RawCompletion)
    asked.check(limits_of(request).max_choices)
    heads, runs = asked.heads(), asked.runs()
    model = models.choose(request.app.state.pool, asked.model, CHAT)
    base = ChatRequest(
        max_tokens=asked.most_tokens(DEFAULT_TOKENS),
        logprobs=asked.logprobs if runs == asked.n or asked.logprobs is not None else 0,
        suffix=asked.suffix or None,
        **asked.shared(request, model),
    )
    prompted = (dataclasses.replace(base, prompt=prompt) for prompt in asked.prompt)
    requests = [one for each in prompted for one in sampling.choices(each, runs)]
    logged = asked.logprobs is not None
    choices = [TextChoice(index, heads[index // runs], logged=logged) for index in range(len(requests))]
    return completion_call(request, asked, model, requests, choices)


class TextChoice(Choice):
    """A choice of text_completion, whole and in chunks. ``head`` stands before the answer.

    ``logged``: the answer includes log probabilities.
    """

    PREFIX, WHOLE, CHUNK = "cmpl", "text_completion", "text_completion"

    def __init__(self, index: int, head: str, *, logged: bool) -> None:
        super().__init__(index)
        self._head, self._logged = head, logged
        self._written = CompletionLogprobs()

    def whole(self) -> dict[str, Any]:
        logged = self._written.feed(self.logprobs) if self._logged else None
        return self._choice(self._head + "".join(self.texts)) | {"logprobs": logged}

    def opening(self) -> dict[str, Any] | None:
        return self._choice(self._head) if self._head else None

    def delta(self, event: Event) -> dict[str, Any] | None:
        match event:
            case TokenEvent():
                return self._choice(event.text) | {"logprobs": self._written.feed(event.logprobs)}
            case ReasoningEvent():
                return self._choice(event.text)
            case FinishEvent() | PromptEvent():
                return self._choice("")
        return None

    def _choice(self, text: str) -> dict[str, Any]:
        return {"index": self.index, "text": text, "logprobs": None, "finish_reason": self.reason}
