"""POST /v1/messages, and the count of its prompt."""

from __future__ import annotations

import dataclasses

from starlette.requests import Request

from edgeserve.api import models
from edgeserve.api.anthropic.answer import PING, MessageAnswer
from edgeserve.api.anthropic.request import AnthropicCount, AnthropicMessages
from edgeserve.api.json_body import read_json
from edgeserve.api.line import Call
from edgeserve.api.prompt_size import PromptSize

NAMES = {"response_format": "output_config.format", "json_schema": "output_config.format", "stop": "stop_sequences"}
"""This dialect's names of fields, for errors of engines."""


async def messages(request: Request) -> Call:
    asked = await read_json(request, AnthropicMessages)
    model, prompt = await asked.prompt(request)
    wanted = dataclasses.replace(prompt, count="first", **asked.answered())
    name = models.name(request.app.state.pool, model, asked.model)
    renderer = MessageAnswer(name, stream=asked.stream, thoughts=asked.thinking.told)
    return Call(model, [wanted], renderer, asked.keep_alive, names=NAMES, ping=PING)


async def count_tokens(request: Request) -> Call:
    asked = await read_json(request, AnthropicCount)
    model, prompt = await asked.prompt(request)
    return Call(model, [dataclasses.replace(prompt, count="only")], PromptSize(), asked.keep_alive, names=NAMES)
