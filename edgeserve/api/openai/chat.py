"""OpenAI's chat completions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from starlette.requests import Request

from edgeserve.api import models
from edgeserve.api.attachments import Attachments
from edgeserve.api.calls import body
from edgeserve.api.conversation import Messages
from edgeserve.api.line import Call
from edgeserve.api.openai import sampling
from edgeserve.api.openai.call import completion_call
from edgeserve.api.openai.logprobs import ChatLogprobs, chat_logprobs
from edgeserve.api.openai.renderer import Choice
from edgeserve.api.openai.sampling import Sampled
from edgeserve.api.openai.thinking import Thinking
from edgeserve.api.tools import ToolsOrFunctions
from edgeserve.api.uploads import read_body
from edgeserve.api.values import Flag
from edgeserve.dataclass import dataclass
from edgeserve.messages import (
    ChatRequest,
    Event,
    FinishEvent,
    Message,
    PromptEvent,
    ReasoningEvent,
    TokenEvent,
    ToolCallEvent,
)


class ChatCompletion(Sampled, ToolsOrFunctions, ChatLogprobs, Thinking):
    """The body of POST /v1/chat/completions."""

    messages = Messages(required=True)
    echo = Flag("the answer repeats the text of the last message, where that is the assistant's")

    def head(self, messages: Sequence[Message]) -> str:
        """The text before the answer, for ``echo``."""
        last = messages[-1]
        return last.text if self.echo and last.role == "assistant" else ""


async def chat(request: Request) -> Call:
    asked, attached = await read_body(request, ChatCompletion)
    tools, alternatives, runs = asked.declared(), asked.alternatives(), asked.runs()
    if asked.form().grammar is not None and tools:
        raise asked.error("grammar", "cannot stand beside tools, whose calls have a grammar of their own")
    messages = await asked.messages.whole(Attachments(request, attached))
    asked.check_prompt(messages)
    model = models.choose(request.app.state.pool, asked.model, models.answering_chat(messages))
    base = ChatRequest(
        messages=messages,
        max_tokens=asked.most_tokens(),
        tools=tools,
        tool_choice=asked.choice(),
        logprobs=alternatives if runs == asked.n or alternatives is not None else 0,
        thinking=asked.wishes().on,
        variables=asked.variables(),
        continues=asked.continue_final_message,
        generation_prompt=asked.add_generation_prompt,
        **asked.shared(request, model),
    )
    style = Style(
        thoughts=asked.include_reasoning, function=asked.old_style, head=asked.head(messages), logprobs=alternatives
    )
    choices = [ChatChoice(index, style) for index in range(runs)]
    return completion_call(request, asked, model, sampling.choices(base, runs), choices)


@dataclass(frozen=True, slots=True)
class Style:
    """The form of a choice.

    - ``thoughts``: the answer includes the thoughts
    - ``function``: a call is a ``function_call``, as before OpenAI had tools
    - ``head``: text before the answer
    - ``logprobs``: alternatives to each token that the client asked for; None: it asked for no log probabilities
    """

    thoughts: bool = True
    function: bool = False
    head: str = ""
    logprobs: int | None = None


class ChatChoice(Choice):
    """A choice of chat.completion and chat.completion.chunk."""

    PREFIX, WHOLE, CHUNK = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def __init__(self, index: int, style: Style) -> None:
        super().__init__(index)
        self._style = style

    @property
    def reason(self) -> str | None:
        reason = super().reason
        return "function_call" if reason == "tool_calls" and self._style.function else reason

    def whole(self) -> dict[str, Any]:
        text = self._style.head + "".join(self.texts)
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if self.thoughts and self._style.thoughts:
            message["reasoning_content"] = "".join(self.thoughts)
        if self.calls:
            message |= {"content": text or None} | self._called([body(call) for call in self.calls])
        logged = chat_logprobs(self.logprobs) if self._style.logprobs is not None else None
        return {"index": self.index, "message": message, "logprobs": logged, "finish_reason": self.reason}

    def opening(self) -> dict[str, Any]:
        return self._delta({"role": "assistant", "content": self._style.head})

    def delta(self, event: Event) -> dict[str, Any] | None:
        match event:
            case TokenEvent():
                return self._delta({"content": event.text}, chat_logprobs(event.logprobs))
            case ReasoningEvent():
                return self._delta({"reasoning_content": event.text}) if self._style.thoughts else None
            case ToolCallEvent():
                return self._delta(self._called([{"index": len(self.calls) - 1, **body(event.call)}]))
            case FinishEvent() | PromptEvent():
                return self._delta({})
        return None

    def _called(self, calls: list[dict[str, Any]]) -> dict[str, Any]:
        """The member of a message or delta that holds the calls."""
        return {"function_call": calls[0]["function"]} if self._style.function else {"tool_calls": calls}

    def _delta(self, delta: dict[str, Any], logprobs: dict[str, Any] | None = None) -> dict[str, Any]:
        return {"index": self.index, "delta": delta, "logprobs": logprobs, "finish_reason": self.reason}
