"""Conversation: the words of a user, answered by a language model."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator

from edgeserve.api import models
from edgeserve.api.wyoming.events import Event
from edgeserve.api.wyoming.fields import Asked
from edgeserve.api.wyoming.services import Send, Services
from edgeserve.clients import Client, client_of
from edgeserve.errors import Cancelled, ContextOverflow, EdgeserveError
from edgeserve.jobs import CHAT
from edgeserve.messages import ChatRequest, Message, TextPart, TokenEvent


async def talk(services: Services, send: Send, client: Client, model: str, asked: Asked) -> None:
    """Answer with ``handled``, or with ``not-handled`` and the reason. ``model``: a name, empty for the default."""
    number = asked.context.conversation_id if asked.context else ""
    context = {"context": {"conversation_id": number}} if number else {}
    key = client_of(client.address), number
    said = Message("user", (TextPart(asked.text),))
    answer: list[str] = []
    try:
        chosen = models.choose(services.pool, model, CHAT)
        turns = services.memory.turns(key)
        async with contextlib.aclosing(_answer(services, chosen, turns, said)) as pieces:
            async for piece in pieces:
                if not answer:
                    await send(Event("handled-start", context))
                answer.append(piece)
                await send(Event("handled-chunk", {"text": piece}))
    except Cancelled:
        raise
    except EdgeserveError as error:
        await send(Event("not-handled", {"text": error.message, **context}))
    else:
        text = "".join(answer).strip()
        if text:
            services.memory.keep(key, (*turns, said, Message("assistant", (TextPart(text),))))
        await send(Event("handled", {"text": text, **context}))
    if answer:
        await send(Event("handled-stop"))


async def _answer(
    services: Services, model: str, turns: tuple[Message, ...], said: Message
) -> AsyncGenerator[str, None]:
    """The pieces of the answer. Where all turns do not fit into the context, the older half is left out."""
    while True:
        begun = False
        try:
            async with await services.pool.lease(model) as lease:
                async for event in lease.run(ChatRequest((*turns, said))):
                    if isinstance(event, TokenEvent) and event.text:
                        begun = True
                        yield event.text
            return
        except ContextOverflow:
            if begun or not turns:
                raise
            turns = turns[max(2, len(turns) // 4 * 2) :]  # question and answer leave together
