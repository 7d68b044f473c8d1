"""The routes of Anthropic's dialect."""

from __future__ import annotations

from edgeserve.api import sse
from edgeserve.api.entry import Entry
from edgeserve.jobs import CHAT

ANTHROPIC = (
    Entry(
        "POST",
        "/v1/messages",
        "Anthropic's messages",
        "edgeserve.api.anthropic.messages:messages",
        "edgeserve.api.anthropic.request:AnthropicMessages",
        jobs=CHAT,
        also=(sse.MEDIA_TYPE,),
    ),
    Entry(
        "POST",
        "/v1/messages/count_tokens",
        "Tokens of the prompt of Anthropic's messages",
        "edgeserve.api.anthropic.messages:count_tokens",
        "edgeserve.api.anthropic.request:AnthropicCount",
        jobs=CHAT,
    ),
)
