"""How OpenAI's dialects say how to choose tokens, when to stop and how many answers to make."""

from __future__ import annotations

import dataclasses
import re

from edgeserve.api import keep_alive
from edgeserve.api.fields import Fields
from edgeserve.messages import ChatRequest, Sampling

MAX_TOKENS = 1_000_000
MAX_STOP = 500
"""Characters of a text that ends an answer: each token is held against all its beginnings."""
MAX_BIASES = 1024
"""They are added anew for each token of the answer. OpenAI takes 300."""
TOKEN_ID = re.compile(r"[0-9]{1,9}")
FIELDS = {"model", "stream", "stream_options", "n", "seed", "stop", "temperature", "top_p", "top_k", "min_p"}
FIELDS |= {"repeat_penalty", "presence_penalty", "frequency_penalty", "logit_bias", "max_tokens", "logprobs"}
FIELDS |= {keep_alive.FIELD}


def read_stop(fields: Fields) -> tuple[str, ...]:
    stops = fields.texts("stop", 4)
    if (longest := max(map(len, stops), default=0)) > MAX_STOP:
        raise fields.error("stop", f"has {longest} characters; the limit is {MAX_STOP}")
    return tuple(one for one in stops if one)


def read(fields: Fields) -> Sampling:
    return Sampling(
        temperature=fields.number("temperature", 0, 2),
        top_p=fields.number("top_p", 0, 1),
        top_k=fields.integer("top_k", 0, 100_000),
        min_p=fields.number("min_p", 0, 1),
        presence_penalty=fields.number("presence_penalty", -2, 2),
        frequency_penalty=fields.number("frequency_penalty", -2, 2),
        repeat_penalty=fields.number("repeat_penalty", 0.01, 10),  # llama.cpp divides by it
        seed=fields.integer("seed", -(2**63), 2**63 - 1),
        logit_bias=_logit_bias(fields),
    )


def _logit_bias(fields: Fields) -> tuple[tuple[int, float], ...]:
    given = fields.raw("logit_bias")
    if given is None:
        return ()
    if not isinstance(given, dict) or not all(TOKEN_ID.fullmatch(token) for token in given):
        raise fields.error("logit_bias", "must be an object of token ids and numbers")
    if len(given) > MAX_BIASES:
        raise fields.error("logit_bias", f"has {len(given)} entries; the limit is {MAX_BIASES}")
    biases = Fields(given, "logit_bias.")
    return tuple((int(token), biases.number(token, -100, 100) or 0.0) for token in given)


def choices(base: ChatRequest, count: int) -> list[ChatRequest]:
    """``count`` runs of one request; a seed is counted up, so that the answers differ and can be had again."""
    seed = base.sampling.seed
    if count == 1 or seed is None:
        return [base] * count
    sampling = (dataclasses.replace(base.sampling, seed=seed + index) for index in range(count))
    return [dataclasses.replace(base, sampling=one) for one in sampling]
