"""Native chat, and the two instructions that come with it: a SOAP note and a summary."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from edgeserve.api import cache_salt, models
from edgeserve.api.adapters import Adapted
from edgeserve.api.attachments import Attachments
from edgeserve.api.conversation import Messages
from edgeserve.api.fields import Fields
from edgeserve.api.json_body import read_json
from edgeserve.api.limits import Limits
from edgeserve.api.line import Call
from edgeserve.api.native.text import TextBody, TokenStream
from edgeserve.api.question import MAX_TOKENS
from edgeserve.api.schema import GIVEN
from edgeserve.api.values import Integer, Text
from edgeserve.messages import ChatRequest, Message, TextPart

SOAP = (
    "You are a medical scribe. Write a SOAP note from the transcript of a consultation, under the headings Subjective, "
    "Objective, Assessment and Plan. Use only what the transcript says."
)
SUMMARIZE = "Summarize the text in a few short sentences. Use only what it says."


class Limited(Adapted):
    """A request whose answer has a limit."""

    max_length = Integer("tokens of the answer at most", 1, MAX_TOKENS)


class Chat(Limited):
    """The body of POST /v1/chat: a prompt, or messages."""

    ANY_OF = ("prompt", "messages")
    prompt = Text("what the user says; required without messages")
    system = Text("how to answer; not beside messages")
    messages = Messages()

    def __init__(self, fields: Fields, limits: Limits) -> None:
        super().__init__(fields, limits)
        for name in ("prompt", "system"):
            if self.has("messages") and self.has(name):
                raise self.error(name, "cannot stand beside messages")

    @classmethod
    def describe(cls, limits: Limits) -> dict[str, Any]:
        none = {"type": "null"}
        ways = [
            {"required": ["prompt"], "properties": {"prompt": GIVEN, "messages": none}},
            {"required": ["messages"], "properties": {"messages": GIVEN, "prompt": none, "system": none}},
        ]
        return super().describe(limits) | {"anyOf": ways}

    async def conversation(self, request: Request) -> tuple[Message, ...]:
        """The messages. Raises InvalidRequest and its kinds."""
        if not self.has("messages"):
            return _asked(self.system, self.prompt)
        return await self.messages.whole(Attachments(request))


class Soap(Limited):
    """The body of POST /v1/chat/soap."""

    transcript = Text("of the consultation", required=True)


class Summarize(Limited):
    """The body of POST /v1/chat/summarize."""

    text = Text("to be summarized", required=True)


async def chat(request: Request) -> Call:
    asked = await read_json(request, Chat)
    return _continued(request, asked, await asked.conversation(request), TextBody())


async def chat_stream(request: Request) -> Call:
    asked = await read_json(request, Chat)
    return _continued(request, asked, await asked.conversation(request), TokenStream())


async def soap(request: Request) -> Call:
    asked = await read_json(request, Soap)
    return _continued(request, asked, _asked(SOAP, asked.transcript), TextBody())


async def summarize(request: Request) -> Call:
    asked = await read_json(request, Summarize)
    return _continued(request, asked, _asked(SUMMARIZE, asked.text), TextBody())


def _asked(system: str, text: str) -> tuple[Message, ...]:
    said = Message("user", (TextPart(text),))
    return (Message("system", (TextPart(system),)), said) if system else (said,)


def _continued(request: Request, asked: Limited, messages: tuple[Message, ...], renderer: TextBody) -> Call:
    pool = request.app.state.pool
    model = models.choose(pool, asked.model, models.answering_chat(messages))
    wanted = ChatRequest(
        messages,
        max_tokens=asked.max_length,
        salt=cache_salt.salt(request, asked.prompt_cache_key),
        adapters=asked.adapters(pool, model),
    )
    return Call(model, [wanted], renderer, asked.keep_alive)
