"""The bodies of this dialect's requests."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from edgeserve.api import adapters, cache_salt, models
from edgeserve.api.anthropic.blocks import TextBlock
from edgeserve.api.anthropic.conversation import MessagesField, conversation
from edgeserve.api.anthropic.thinking import Shaped
from edgeserve.api.anthropic.tools import Tools
from edgeserve.api.anthropic.values import Content, Required
from edgeserve.api.attachments import Attachments
from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits, limits_of
from edgeserve.api.openai.ending import MAX_STOP, MAX_STOPS
from edgeserve.api.question import MAX_TOKENS, Question
from edgeserve.api.values import Flag, Ignored, Integer, Number, Texts
from edgeserve.messages import ChatRequest, Sampling
from edgeserve.residency.pool import Pool


class Asked(Question, Tools, Shaped):
    """The fields that make up a prompt, and those that change nothing here."""

    messages = MessagesField()
    system = Content(lambda: {"text": TextBlock}, "the system text, or blocks of text")
    cache_control = Ignored("accepted; every prompt is cached")
    metadata = Ignored()
    service_tier = Ignored()
    container = Ignored()
    context_management = Ignored("accepted; the server keeps the whole conversation")
    mcp_servers = Ignored("accepted; the server calls no tools")
    inference_geo = Ignored()
    speed = Ignored()
    betas = Ignored()

    def __init__(self, fields: Fields, limits: Limits) -> None:
        super().__init__(fields, limits)
        self.given = conversation(self.system, self.messages)
        """Made here, where a thread reads a large body."""

    async def prompt(self, request: Request) -> tuple[str, ChatRequest]:
        """The model that answers, and the conversation as it takes it. Raises InvalidRequest and its kinds."""
        tools, given = self.declared(), self.given
        count, most = len(given.conversation.pending), limits_of(request).max_images
        if count > most:
            raise self.error("messages", f"hold {count} images and files; the limit is {most}")
        messages = await given.conversation.whole(Attachments(request))
        pool: Pool = request.app.state.pool
        model = models.choose(pool, self.model, models.answering_chat(messages))
        return model, ChatRequest(
            messages,
            tools=tools,
            tool_choice=self.choice(),
            json_schema=self.json_schema,
            thinking=self.thinking.on,
            variables=self.variables(),
            continues=given.continues,
            salt=cache_salt.salt(request, ""),
            adapters=adapters.named(pool, model, self.model),
        )


class AnthropicMessages(Asked):
    """The body of POST /v1/messages."""

    max_tokens = Required("tokens of the answer at most; 0: only read the prompt", 0, MAX_TOKENS)
    stream = Flag("send the answer in events, as it is made")
    stop_sequences = Texts("strings that end the answer", MAX_STOPS, chars=MAX_STOP)
    temperature = Number("0 is greedy; left out: as configured", 0, 2)
    top_p = Number("nucleus sampling: the probability that the tokens considered have together", 0, 1)
    top_k = Integer("tokens considered; 0 or -1: all", -1, 100_000)

    def answered(self) -> dict[str, Any]:
        """The fields of a ``ChatRequest`` about the answer."""
        return {
            "max_tokens": self.max_tokens,
            "stop": tuple(one for one in self.stop_sequences if one),
            "sampling": Sampling(
                temperature=self.temperature,
                top_p=self.top_p,
                top_k=None if self.top_k is None else max(0, self.top_k),
            ),
        }


class AnthropicCount(Asked):
    """The body of POST /v1/messages/count_tokens."""
