"""OpenAI's chat completions."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from edgeserve.api import cache_salt, models
from edgeserve.api.conversation import Messages
from edgeserve.api.line import Call
from edgeserve.api.openai import sampling
from edgeserve.api.openai.logprobs import ChatLogprobs, chat_logprobs
from edgeserve.api.openai.renderer import Choice, Completion
from edgeserve.api.openai.response_format import FormatField
from edgeserve.api.openai.sampling import Sampled
from edgeserve.api.pictures.request import Pictures
from edgeserve.api.question import MAX_TOKENS
from edgeserve.api.tools import Tools, body
from edgeserve.api.uploads import read_body
from edgeserve.api.values import Integer
from edgeserve.messages import ChatRequest, Event, FinishEvent, ReasoningEvent, TokenEvent, ToolCallEvent


class ChatCompletion(Sampled, Tools, ChatLogprobs):
    """The body of POST /v1/chat/completions."""

    messages = Messages(required=True)
    max_completion_tokens = Integer("tokens of one answer at most", 1, MAX_TOKENS)
    max_tokens = Integer("the older name of max_completion_tokens", 1, MAX_TOKENS)
    response_format = FormatField()


async def chat(request: Request) -> Call:
    asked, attached = await read_body(request, ChatCompletion)
    tools, alternatives, usage_wanted = asked.declared(), asked.alternatives(), asked.usage_wanted
    messages = await asked.messages.whole(Pictures(request, attached))
    pool = request.app.state.pool
    model = models.choose(pool, asked.model, models.answering_chat(messages))
    base = ChatRequest(
        messages=messages,
        max_tokens=asked.max_completion_tokens or asked.max_tokens,
        stop=asked.stops(),
        sampling=asked.sampling(),
        json_object=asked.response_format.json_object,
        json_schema=asked.response_format.json_schema,
        tools=tools,
        tool_choice=asked.choice(),
        logprobs=alternatives,
        salt=cache_salt.salt(request, asked.prompt_cache_key),
        adapters=asked.adapters(pool, model),
    )
    choices = [ChatChoice(index) for index in range(asked.n)]
    renderer = Completion(
        models.name(pool, model, asked.model), choices, asked.n, stream=asked.stream, usage_wanted=usage_wanted
    )
    return Call(
        model,
        sampling.choices(base, asked.n),
        renderer,
        asked.keep_alive,
        apart=asked.seed is not None,
        threaded=asked.logprobs and not asked.stream,  # writing 8,000 tokens with 20 alternatives each takes a second
    )


class ChatChoice(Choice):
    """A choice of chat.completion and chat.completion.chunk."""

    PREFIX, WHOLE, CHUNK = "chatcmpl", "chat.completion", "chat.completion.chunk"

    def whole(self) -> dict[str, Any]:
        text = "".join(self.texts)
        message: dict[str, Any] = {"role": "assistant", "content": text, "refusal": None}
        if self.thoughts:
            message["reasoning_content"] = "".join(self.thoughts)
        if self.calls:
            message |= {"content": text or None, "tool_calls": [body(call) for call in self.calls]}
        logged = chat_logprobs(self.logprobs)
        return {"index": self.index, "message": message, "logprobs": logged, "finish_reason": self.reason}

    def opening(self) -> dict[str, Any]:
        return self._delta({"role": "assistant", "content": ""})

    def delta(self, event: Event) -> dict[str, Any] | None:
        match event:
            case TokenEvent():
                return self._delta({"content": event.text}) | {"logprobs": chat_logprobs(event.logprobs)}
            case ReasoningEvent():
                return self._delta({"reasoning_content": event.text})
            case ToolCallEvent():
                return self._delta({"tool_calls": [{"index": len(self.calls) - 1, **body(event.call)}]})
            case FinishEvent():
                return self._delta({})
        return None

    def _delta(self, delta: dict[str, Any]) -> dict[str, Any]:
        return {"index": self.index, "delta": delta, "logprobs": None, "finish_reason": self.reason}
