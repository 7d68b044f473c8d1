"""OpenAI's parameters that change nothing here. The server accepts a value that asks for nothing it lacks."""

from __future__ import annotations

from typing import Any

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.schema import Field, Record
from edgeserve.api.values import Flag, Ignored, Integer

MAX_SLOT = 255
"""Largest number of a slot: llama.cpp has 256 at most."""


class Only(Field[None]):
    """A parameter that must have one of these values, which describe what the server does anyway."""

    def __init__(self, *values: Any) -> None:
        super().__init__("accepted; it changes nothing here", None)
        self._values = values

    def read(self, fields: Fields, limits: Limits) -> None:
        given = fields.raw(self.name)
        if not any(type(given) is type(one) and given == one for one in self._values):  # 0 == False
            listed = " or ".join(map(_written, self._values))
            raise fields.error(self.name, f"is not supported by this server unless it is {listed}; leave it out")

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"enum": list(self._values)}


class Unavailable(Field[None]):
    """A parameter that asks for a part of OpenAI's API that is not here."""

    def __init__(self, why: str) -> None:
        super().__init__(f"not supported: {why}", None)
        self._why = why

    def read(self, fields: Fields, limits: Limits) -> None:
        raise fields.error(self.name, f"is not supported by this server: {self._why}; leave it out")

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "null"}


class Accepted(Record):
    """Parameters of chat completions and completions."""

    user = Ignored()
    metadata = Ignored()
    safety_identifier = Ignored()
    verbosity = Ignored()
    prediction = Ignored()
    prompt_cache_retention = Ignored()
    prompt_cache_options = Ignored()
    store = Ignored("accepted; no answer is kept")
    service_tier = Ignored()
    modalities = Only(["text"])
    audio = Unavailable("chat answers in text; /v1/audio/speech speaks it")
    moderation = Unavailable("this server moderates nothing")
    web_search_options = Unavailable("this server searches nothing")
    id_slot = Integer("number of the slot that shall hold the conversation; -1: any", -1, MAX_SLOT, default=-1)
    timings_per_token = Flag("the answer's end tells llama-server's timings")
    return_progress = Flag("a stream tells how much of the prompt was read")
    allowed_token_ids = Unavailable("bias other tokens with logit_bias")
    bad_words = Unavailable("bias their tokens with logit_bias")
    logits_processors = Unavailable("a request brings no code")
    prompt_logprobs = Only(0)
    include_stop_str_in_output = Only(False)
    skip_special_tokens = Only(True)
    truncate_prompt_tokens = Unavailable("the server never cuts a prompt")
    length_penalty = Only(1, 1.0)
    reasoning_format = Only("auto", "deepseek")


def _written(value: Any) -> str:
    return "false" if value is False else str(value).replace("'", '"')
