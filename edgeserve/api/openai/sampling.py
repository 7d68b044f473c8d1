"""Fields of OpenAI's dialects about sampling, stop strings and the number of answers."""

from __future__ import annotations

import dataclasses
import re
from typing import Any

from edgeserve.api.adapters import Adapted
from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.openai.accepted import Accepted
from edgeserve.api.schema import Field, Object, Record
from edgeserve.api.values import Flag, Integer, Number, Texts
from edgeserve.messages import ChatRequest, Sampling

MAX_STOP = 500
"""Characters of a stop string. The engine compares each token with all beginnings of the string."""
MAX_BIASES = 1024
"""Entries of ``logit_bias``, which the engine adds for each token of the answer. OpenAI takes 300."""
TOKEN_ID = r"[0-9]{1,9}"  # noqa: S105 - a token of text
STREAM_HINT = "is only allowed when stream is true"

Biases = tuple[tuple[int, float], ...]


class LogitBias(Field[Biases]):
    """``logit_bias``."""

    LOW, HIGH = -100, 100

    def __init__(self) -> None:
        super().__init__("token ids and the numbers to add to their logits", ())

    def read(self, fields: Fields, limits: Limits) -> Biases:
        given = fields.raw(self.name)
        if not isinstance(given, dict) or not all(re.fullmatch(TOKEN_ID, token) for token in given):
            raise fields.error(self.name, "must be an object of token ids and numbers")
        if len(given) > MAX_BIASES:
            raise fields.error(self.name, f"has {len(given)} entries; the limit is {MAX_BIASES}")
        biases = Fields(given, f"{self.name}.")
        return tuple((int(token), biases.number(token, self.LOW, self.HIGH) or 0.0) for token in given)

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {
            "type": "object",
            "propertyNames": {"pattern": f"^{TOKEN_ID}$"},
            "maxProperties": MAX_BIASES,
            "additionalProperties": {"type": ["number", "null"], "minimum": self.LOW, "maximum": self.HIGH},
        }


class StreamOptions(Record):
    include_usage = Flag("tell the usage in a last chunk")
    include_obfuscation = Flag("accepted; it changes nothing here")


class Sampled(Adapted, Accepted):
    """The fields that chat completions and completions share."""

    stream = Flag("send the answer in chunks, as it is made")
    stream_options = Object("needs stream", StreamOptions)
    n = Integer("answers to make", 1, lambda limits: limits.max_choices, default=1)
    seed = Integer("makes answers repeatable", -(2**63), 2**63 - 1)
    stop = Texts("strings that end the answer", 4, chars=MAX_STOP)
    temperature = Number("0 is greedy; left out: as configured", 0, 2)
    top_p = Number("nucleus sampling: the probability that the tokens considered have together", 0, 1)
    top_k = Integer("tokens considered; an extension", 0, 100_000)
    min_p = Number("the least probability, as a share of the likeliest token's; an extension", 0, 1)
    presence_penalty = Number("lowers the logits of tokens that were said", -2, 2)
    frequency_penalty = Number("lowers the logits of tokens by how often they were said", -2, 2)
    repeat_penalty = Number("divides the logits of tokens that were said; an extension", 0.01, 10)
    logit_bias = LogitBias()

    @property
    def usage_wanted(self) -> bool:
        """Whether the stream ends with its usage. Raises InvalidRequest where there is no stream."""
        if self.stream_options is None:
            return False
        if not self.stream:
            raise self.error("stream_options", STREAM_HINT)
        return self.stream_options.include_usage

    def stops(self) -> tuple[str, ...]:
        return tuple(one for one in self.stop if one)

    def sampling(self) -> Sampling:
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=self.top_k,
            min_p=self.min_p,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repeat_penalty=self.repeat_penalty,
            seed=self.seed,
            logit_bias=self.logit_bias,
        )


def choices(base: ChatRequest, count: int) -> list[ChatRequest]:
    """``count`` runs of one request. Each has the next seed, so that the answers differ and are repeatable."""
    seed = base.sampling.seed
    if count == 1 or seed is None:
        return [base] * count
    sampling = (dataclasses.replace(base.sampling, seed=seed + index) for index in range(count))
    return [dataclasses.replace(base, sampling=one) for one in sampling]
