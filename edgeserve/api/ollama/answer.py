"""Fields that chat and generate share."""

from __future__ import annotations

import json
from typing import Any

from edgeserve.api.line import Call
from edgeserve.api.ollama import details, names
from edgeserve.api.ollama.fields import JSON, FormatField, ThinkField
from edgeserve.api.ollama.options import Options
from edgeserve.api.ollama.renderer import AnswerLines
from edgeserve.api.ollama.request import Asked
from edgeserve.api.ollama.times import Times
from edgeserve.api.openai.logprobs import MAX
from edgeserve.api.schema import Object
from edgeserve.api.values import Flag, Integer
from edgeserve.errors import NotSupported
from edgeserve.messages import ChatRequest, Sampling
from edgeserve.residency.pool import Pool


class Answered(Asked):
    """A request that is answered in tokens."""

    stream = Flag("a line for each part of the answer; false: one object", default=True)
    format = FormatField()
    think = ThinkField()
    options = Object("sampling and the length of the answer", Options)
    logprobs = Flag("tell how likely each token was")
    top_logprobs = Integer("alternatives told with each token; needs logprobs", 0, MAX)
    truncate = Flag("leave the oldest turns out of a conversation that is too long; false: refuse it", default=True)
    shift = Flag("accepted; an answer ends where the context is full", default=True)

    def shared(self) -> dict[str, Any]:
        """The fields of a ``ChatRequest`` that follow from these."""
        options = self.options
        level = {"reasoning_effort": self.think} if isinstance(self.think, str) else {}
        return {
            "max_tokens": options.max_tokens if options else None,
            "stop": options.stops() if options else (),
            "sampling": options.sampling() if options else Sampling(),
            "json_object": self.format == JSON,
            "json_schema": self.format if self.format.startswith("{") else None,
            "context": options.context if options else None,
            "truncate": self.truncate,
            "thinking": None if self.think is None else bool(self.think),
            "variables": json.dumps(level) if level else "",
            "logprobs": (self.top_logprobs or 0) if self.logprobs else None,
        }

    async def check_thinking(self, pool: Pool, model: str) -> None:
        """Raises NotSupported where the request asks a model to think that cannot."""
        if self.think:
            await self.check_ability(pool, model, "thinking", "think")

    async def check_ability(self, pool: Pool, model: str, ability: str, field: str) -> None:
        """Raises NotSupported, which names the field, for a model without the ability."""
        found = await details.LOOKS.run(details.facts, pool.gates[model].spec)
        if ability not in found.abilities:
            raise NotSupported(f'"{self.named(pool, model)}" does not support {ability}', param=field)

    def named(self, pool: Pool, model: str) -> str:
        return names.answered(pool, self.model, model)

    def call(self, model: str, wanted: ChatRequest, renderer: AnswerLines, times: Times) -> Call:
        return Call(
            model,
            [wanted],
            renderer,
            self.keep_alive,
            apart=wanted.sampling.seed is not None,
            threaded=self.logprobs and not self.stream,
            begun=times.begin,
            names=NAMES,
        )


NAMES = {"temperature": "options.temperature", "json_schema": "format", "response_format": "format"}
"""This dialect's names of fields, for errors of engines."""
