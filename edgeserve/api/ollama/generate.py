"""POST /api/generate: a prompt answered, raw text continued, or a model loaded or unloaded."""

from __future__ import annotations

import dataclasses
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from edgeserve.api import adapters, cache_salt, models
from edgeserve.api.attachments import Attachments
from edgeserve.api.content import Pending
from edgeserve.api.conversation import Conversation
from edgeserve.api.limits import limits_of
from edgeserve.api.line import Call, answering
from edgeserve.api.ollama import context, names
from edgeserve.api.ollama.answer import Answered
from edgeserve.api.ollama.context import ContextField, Turn
from edgeserve.api.ollama.fields import Images, Refused
from edgeserve.api.ollama.moves import loaded_or_unloaded
from edgeserve.api.ollama.renderer import AnswerLines, Said
from edgeserve.api.ollama.request import read
from edgeserve.api.ollama.times import Times
from edgeserve.api.values import Flag, Text
from edgeserve.jobs import CHAT
from edgeserve.messages import ChatRequest, Message, TextPart


class OllamaGenerate(Answered):
    """The body of POST /api/generate."""

    prompt = Text("the text to answer; left out: the model is loaded, or unloaded")
    suffix = Text("text behind a gap after prompt, which the answer fills; without the chat template")
    system = Text("how to answer; not with raw")
    context = ContextField()
    raw = Flag("continue the prompt as it is, without the chat template")
    images = Images()
    template = Refused("a model here has its own chat template")

    def turns(self) -> list[Turn]:
        """The conversation: that of ``context``, under this ``system``, and the prompt."""
        before = [one for one in self.context if not (self.system and one[0] == "system")]
        system: list[Turn] = [("system", self.system)] if self.system else []
        return [*system, *before, ("user", self.prompt)]


async def generate(request: Request) -> Response:
    times = Times()
    asked = await read(request, OllamaGenerate)
    if not (asked.prompt or asked.suffix or asked.images):
        return JSONResponse(await loaded_or_unloaded(request, asked) | {"response": ""})

    async def parse(request: Request) -> Call:
        return await _call(request, asked, times)

    return await answering(parse, *CHAT)(request)


async def _call(request: Request, asked: OllamaGenerate, times: Times) -> Call:
    pool = request.app.state.pool
    turns = asked.turns()
    wanted = ChatRequest(salt=cache_salt.salt(request, ""), **asked.shared())
    plain = asked.raw or bool(asked.suffix)
    if plain:
        _check_plain(asked)
        wanted, model = _with(wanted, prompt=asked.prompt), names.choose(pool, asked.model, CHAT)
        if asked.suffix:
            await asked.check_ability(pool, model, "insert", "suffix")
            wanted = _with(wanted, suffix=asked.suffix)
    else:
        messages = await _pictured(request, asked, turns)
        model = names.choose(pool, asked.model, models.answering_chat(messages))
        wanted = _with(wanted, messages=messages)
    await asked.check_thinking(pool, model)
    wanted = _with(wanted, adapters=adapters.named(pool, model, asked.model))
    named = asked.named(pool, model)
    renderer = GenerateLines(named, times, stream=asked.stream, turns=None if plain else turns)
    return asked.call(model, wanted, renderer, times)


def _with(wanted: ChatRequest, **fields: Any) -> ChatRequest:
    return dataclasses.replace(wanted, **fields)


def _check_plain(asked: OllamaGenerate) -> None:
    """Raises InvalidRequest for fields that a prompt without the chat template has no place for."""
    beside = "raw" if asked.raw else "suffix"
    for name in ("system", "images", "context"):
        if getattr(asked, name):
            raise asked.error(name, f"cannot stand beside {beside}, which sends the prompt to the model as it is")


async def _pictured(request: Request, asked: OllamaGenerate, turns: list[Turn]) -> tuple[Message, ...]:
    """The turns as messages; the pictures belong to the prompt. Raises InvalidRequest and its kinds."""
    limits, count = limits_of(request), len(asked.images)
    if count > limits.max_images:
        raise asked.error("images", f"are {count}; the limit is {limits.max_images}")
    messages = tuple(Message(role, (TextPart(text),)) for role, text in turns)
    pending = tuple(
        Pending("picture", image, f"images[{number}]", number, len(turns) - 1)
        for number, image in enumerate(asked.images)
    )
    return await Conversation(messages, pending).whole(Attachments(request))


class GenerateLines(AnswerLines):
    """POST /api/generate. ``turns``: the conversation, for ``context``; None: the answer has none."""

    def __init__(self, model: str, times: Times, *, stream: bool, turns: list[Turn] | None) -> None:
        super().__init__(model, times, stream=stream)
        self._turns = turns

    def said(self, part: Said) -> dict[str, Any]:
        thoughts = {"thinking": "".join(part.thoughts)} if part.thoughts else {}
        return {"response": "".join(part.texts), **thoughts}

    def last(self, whole: Said) -> dict[str, Any]:
        if self._turns is None:
            return {}
        kept = context.written([*self._turns, ("assistant", "".join(whole.texts))])
        return {"context": kept} if kept else {}
