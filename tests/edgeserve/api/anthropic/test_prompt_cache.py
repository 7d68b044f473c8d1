"""Prompts of Claude Code on a real model: the line about billing changes, and the prompt cache serves the rest."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from edgeserve.api.anthropic.conversation import conversation
from edgeserve.api.anthropic.request import AnthropicCount
from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.engine import ModelSpec
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.messages import ChatRequest, FinishEvent, PromptEvent

Pulled = Callable[[str], Mapping[str, Path]]

pytestmark = pytest.mark.models
RULES = "\n".join(f"Rule {number}: be brief." for number in range(40))


def request(part: str, said: str) -> ChatRequest:
    line = f"x-anthropic-billing-header: cc_version=2.1.77.a43; cc_entrypoint=cli; cch={part};"
    system = [{"type": "text", "text": line}, {"type": "text", "text": RULES}]
    asked = AnthropicCount(Fields({"system": system, "messages": [{"role": "user", "content": said}]}), Limits())
    return ChatRequest(conversation(asked.system, asked.messages).conversation.messages, max_tokens=2, count="first")


def test_the_cache_serves_a_prompt_whose_first_line_changed(pulled: Pulled) -> None:
    files = pulled("smollm2-135m-instruct")
    engine = LlamaChat(ModelSpec("llm", "smollm2", "edgeserve.engines.llama.chat:LlamaChat", files, threads=2))
    engine.open()
    engine.heat()
    try:
        read = []
        for part, said in (("0a1b2", "Name a bird."), ("fffff", "Name a bird."), ("12345", "Name a fish.")):
            first, *_, finish = engine.chat(request(part, said), threading.Event())
            assert isinstance(first, PromptEvent)
            assert isinstance(finish, FinishEvent)
            read.append(first.tokens - first.cached_tokens)
    finally:
        engine.close()
    assert read[0] > 300
    assert read[1] == 1  # the last token alone, for its logits
    assert read[2] < 20  # from the first other word on
