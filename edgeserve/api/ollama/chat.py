"""POST /api/chat: a conversation continued, or a model loaded or unloaded."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api import adapters, cache_salt, models
from edgeserve.api.attachments import Attachments
from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.line import Call, answering
from edgeserve.api.ollama import names
from edgeserve.api.ollama.answer import Answered
from edgeserve.api.ollama.messages import OllamaMessage, OllamaTool, conversation, tools
from edgeserve.api.ollama.moves import loaded_or_unloaded
from edgeserve.api.ollama.renderer import ChatLines, message
from edgeserve.api.ollama.request import read
from edgeserve.api.ollama.times import Times
from edgeserve.api.schema import Objects
from edgeserve.jobs import CHAT
from edgeserve.messages import ChatRequest


class OllamaChat(Answered):
    """The body of POST /api/chat."""

    messages = Objects("the conversation so far; left out: the model is loaded, or unloaded", OllamaMessage, empty=True)
    tools = Objects("functions that the model may call", OllamaTool, empty=True)

    def __init__(self, fields: Fields, limits: Limits) -> None:
        super().__init__(fields, limits)
        self.conversation = conversation(self.messages, limits)
        """Made here, where a thread reads a large body."""


async def chat(request: Request) -> Response:
    times = Times()
    asked = await read(request, OllamaChat)
    if not asked.messages:
        return JSONResponse(await loaded_or_unloaded(request, asked) | {"message": message()})

    async def parse(request: Request) -> Call:
        return await _call(request, asked, times)

    return await answering(parse, *CHAT)(request)


async def _call(request: Request, asked: OllamaChat, times: Times) -> Call:
    pool = request.app.state.pool
    messages = await asked.conversation.whole(Attachments(request))
    model = names.choose(pool, asked.model, models.answering_chat(messages))
    await asked.check_thinking(pool, model)
    wanted = ChatRequest(
        messages,
        tools=tools(asked.tools),
        salt=cache_salt.salt(request, ""),
        adapters=adapters.named(pool, model, asked.model),
        **asked.shared(),
    )
    renderer = ChatLines(asked.named(pool, model), times, stream=asked.stream)
    return asked.call(model, wanted, renderer, times)
