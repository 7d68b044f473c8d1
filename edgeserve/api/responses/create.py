"""POST /v1/responses, and the size of its prompt."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from starlette.requests import Request

from edgeserve.api import models
from edgeserve.api.fragments import written
from edgeserve.api.json_body import read_json
from edgeserve.api.line import Call
from edgeserve.api.prompt_size import PromptSize
from edgeserve.api.responses.output import DEPTH, Json
from edgeserve.api.responses.owner import owner_of
from edgeserve.api.responses.renderer import PING, Keep, ResponseAnswer
from edgeserve.api.responses.request import ResponseRequest, ResponseTokens, responses_of
from edgeserve.api.responses.store import StoredItem, StoredResponse

NAMES = {"messages": "input", "response_format": "text.format", "json_schema": "text.format"}
"""This dialect's names of fields, for errors of engines."""


async def create(request: Request) -> Call:
    asked = await read_json(request, ResponseRequest)
    prompted = await asked.prompted(request)
    # Counted first, so that a stream begins before its prompt is read.
    chat = dataclasses.replace(prompted.chat, count="first" if asked.stream else "", **asked.answered())
    name = models.name(request.app.state.pool, prompted.model, asked.model)
    keep = keeping(request, prompted.items) if asked.store else None
    told = asked.told() | {"store": keep is not None}
    return Call(
        prompted.model,
        [chat],
        ResponseAnswer(name, told, stream=asked.stream, keep=keep),
        asked.keep_alive,
        # 8,000 tokens with 20 alternatives each take a second to write.
        threaded=chat.logprobs is not None or asked.is_long,
        keeps=chat.logprobs is not None,
        names=NAMES,
        ping=PING,
    )


async def input_tokens(request: Request) -> Call:
    asked = await read_json(request, ResponseTokens)
    prompted = await asked.prompted(request)
    chat = dataclasses.replace(prompted.chat, count="only")
    return Call(prompted.model, [chat], PromptSize({"object": "response.input_tokens"}), asked.keep_alive, names=NAMES)


def keeping(request: Request, items: tuple[StoredItem, ...]) -> Keep | None:
    """Stores the response to this request; None where its items alone are too large for the store."""
    store, owner = responses_of(request), owner_of(request)
    if not store.fits(items):
        return None

    def keep(name: str, body: bytes, output: Sequence[Json]) -> bool:
        made = (StoredItem(one["id"], written(one, DEPTH).encode()) for one in output)
        return store.add(StoredResponse(name, body, (*items, *made), len(items)), owner)

    return keep
