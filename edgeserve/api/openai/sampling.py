"""Fields of OpenAI's dialects about sampling, stop strings and the number of answers."""

from __future__ import annotations

import dataclasses
import re
import secrets
from typing import Any, Literal

from starlette.requests import Request

from edgeserve.api import cache_salt
from edgeserve.api.adapters import Adapted
from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.openai.accepted import Accepted, Only
from edgeserve.api.openai.ending import Ended
from edgeserve.api.openai.shape import Shaped
from edgeserve.api.question import MAX_TOKENS
from edgeserve.api.schema import Field, Object, Record
from edgeserve.api.values import Flag, Integer, Number
from edgeserve.messages import ChatRequest, Sampling

MAX_TEMPERATURE = 100
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


class Sampled(Adapted, Accepted, Ended, Shaped):
    """The fields that chat completions and completions share."""

    stream = Flag("send the answer in chunks, as it is made")
    stream_options = Object("needs stream", StreamOptions)
    n = Integer("answers to make", 1, lambda limits: limits.max_choices, default=1)
    seed = Integer("makes answers repeatable", -(2**63), 2**63 - 1)
    best_of = Integer(
        "answers to make, of which the n likeliest are told; without stream", 1, lambda one: one.max_choices
    )
    temperature = Number("0 is greedy; left out: as configured", 0, MAX_TEMPERATURE)
    top_p = Number("nucleus sampling: the probability that the tokens considered have together", 0, 1)
    top_k = Integer("tokens considered; 0 or -1: all; an extension", -1, 100_000)
    min_p = Number("the least probability, as a share of the likeliest token's; an extension", 0, 1)
    presence_penalty = Number("lowers the logits of tokens that were said", -2, 2)
    frequency_penalty = Number("lowers the logits of tokens by how often they were said", -2, 2)
    repeat_penalty = Number("divides the logits of tokens that were said; an extension", 0.01, 10)
    repetition_penalty = Number("vLLM's name of repeat_penalty", 0.01, 10)
    repeat_last_n = Integer("latest tokens of the answer that penalties count; 0: none, -1: all", -1, MAX_TOKENS)
    typical_p = Number("locally typical sampling: the probability of the tokens considered", 0, 1)
    top_n_sigma = Number("tokens within so many deviations of the likeliest logit; 0 or less: all", -1, 100)
    xtc_probability = Number("how often the likeliest tokens are left out, so that a less likely one is said", 0, 1)
    xtc_threshold = Number("least probability of the tokens that xtc_probability leaves out", 0, 1)
    dynatemp_range = Number("the temperature varies by so much, by the entropy of the next token", 0, MAX_TEMPERATURE)
    dynatemp_exponent = Number("how the entropy moves the temperature", 0, 10)
    mirostat = Integer("1 or 2: holds the surprise of the answer instead of other filters; 0: off", 0, 2)
    mirostat_tau = Number("the surprise that mirostat aims at", 0, 100)
    mirostat_eta = Number("how fast mirostat learns", 0, 1)
    dry_multiplier = Only(0, 0.0)
    use_beam_search = Only(False)
    logit_bias = LogitBias()
    cache_prompt = Flag("past prompts may serve this one", default=True)

    @property
    def usage_wanted(self) -> bool:
        """Whether the stream ends with its usage. Raises InvalidRequest where there is no stream."""
        if self.stream_options is None:
            return False
        if not self.stream:
            raise self.error("stream_options", STREAM_HINT)
        return self.stream_options.include_usage

    def sampling(self) -> Sampling:
        return Sampling(
            temperature=self.temperature,
            top_p=self.top_p,
            top_k=None if self.top_k is None else max(0, self.top_k),
            min_p=self.min_p,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            repeat_penalty=self.repetition_penalty if self.repeat_penalty is None else self.repeat_penalty,
            seed=self.seed,
            logit_bias=self.logit_bias,
            typical_p=self.typical_p,
            top_n_sigma=self.top_n_sigma,
            xtc_probability=self.xtc_probability,
            xtc_threshold=self.xtc_threshold,
            dynatemp_range=self.dynatemp_range,
            dynatemp_exponent=self.dynatemp_exponent,
            mirostat=self.mirostat,
            mirostat_tau=self.mirostat_tau,
            mirostat_eta=self.mirostat_eta,
            repeat_last_n=self.repeat_last_n,
        )

    def runs(self) -> int:
        """Answers to make to each prompt. Raises InvalidRequest for a ``best_of`` below ``n``, or with a stream."""
        if self.best_of is None or self.best_of == self.n:
            return self.n
        if self.best_of < self.n:
            raise self.error("best_of", f"must be at least n, which is {self.n}, not {self.best_of}")
        if self.stream:
            raise self.error(
                "best_of", f"must equal n, which is {self.n}, where stream is true: the best is known last"
            )
        return self.best_of

    def shared(self, request: Request, model: str) -> dict[str, Any]:
        """Fields of ``ChatRequest`` that chat completions and completions read alike."""
        return {
            "stop": self.stops(),
            "sampling": self.sampling(),
            **dataclasses.asdict(self.form()),
            "salt": self.salted(request),
            "adapters": self.adapters(request.app.state.pool, model),
            "min_tokens": self.min_tokens,
            "ignore_eos": self.ignore_eos,
            "stop_tokens": self.stop_token_ids,
            "context": self.num_ctx,
            "count": self.counted(),
            "slot": self.id_slot,
        }

    def counted(self) -> Literal["each", ""]:
        """The ``count`` of a request whose stream reports how much of the prompt was read."""
        return "each" if self.stream and self.return_progress else ""

    def salted(self, request: Request) -> str:
        """The salt of the prompt's caches. With ``cache_prompt`` false no past prompt serves this one."""
        salt = cache_salt.salt(request, self.prompt_cache_key)
        return salt if self.cache_prompt else f"{salt}/{secrets.token_hex(16)}"


def choices(base: ChatRequest, count: int) -> list[ChatRequest]:
    """``count`` runs of one request. Each has the next seed, so that the answers differ and are repeatable."""
    seed = base.sampling.seed
    if count == 1 or seed is None:
        return [base] * count
    sampling = (dataclasses.replace(base.sampling, seed=seed + index) for index in range(count))
    return [dataclasses.replace(base, sampling=one) for one in sampling]
