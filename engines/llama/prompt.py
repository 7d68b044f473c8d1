"""The text of a prompt: the conversation in the model's chat template, with thoughts on or off."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from edgeserve.engines.thinking import CLOSE, opened_by
from edgeserve.messages import ChatRequest

if TYPE_CHECKING:
    from edgeserve.engines.llama.template import ChatTemplate

SWITCHES = ("enable_thinking", "thinking")
"""Variables by which chat templates turn thoughts on and off: Qwen's and SmolLM's, DeepSeek's and Granite's."""


def prompt_text(template: ChatTemplate, request: ChatRequest, marker: str = "") -> str:
    """The prompt. ``marker`` stands for a picture. Raises InvalidRequest as ``ChatTemplate.render`` does.

    A template may open the thoughts itself. They are closed at once in three cases:

    - the request wants no thoughts
    - a grammar holds the answer
    - the answer continues in the last message
    """
    variables: dict[str, Any] = json.loads(request.variables) if request.variables else {}
    if request.thinking is not None:
        variables = dict.fromkeys(SWITCHES, request.thinking) | variables
    messages = request.messages[:-1] if request.continues else request.messages
    text = template.render(
        messages,
        marker,
        request.tools,
        several=request.tool_choice.parallel,
        variables=variables,
        generation_prompt=request.generation_prompt,
    )
    if opened_by(text) and (request.thinking is False or request.continues or request.shaped):
        text = f"{text.rstrip()}\n\n{CLOSE}\n\n"
    return text + request.messages[-1].text if request.continues else text
