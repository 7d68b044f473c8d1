"""The routes of Anthropic's dialect."""

from __future__ import annotations

from edgeserve.api import sse
from edgeserve.api.anthropic.messages import count_tokens, messages
from edgeserve.api.anthropic.request import AnthropicCount, AnthropicMessages
from edgeserve.api.entry import Entry
from edgeserve.api.line import answering
from edgeserve.jobs import CHAT

ANTHROPIC = (
    Entry(
        "POST",
        "/v1/messages",
        "Anthropic's messages",
        answering(messages, *CHAT),
        AnthropicMessages,
        also=(sse.MEDIA_TYPE,),
    ),
    Entry(
        "POST",
        "/v1/messages/count_tokens",
        "Tokens of the prompt of Anthropic's messages",
        answering(count_tokens, *CHAT),
        AnthropicCount,
    ),
)
