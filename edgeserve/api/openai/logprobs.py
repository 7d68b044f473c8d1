"""How likely each token was, as OpenAI's two dialects ask for it and write it."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any

from edgeserve.api.fields import Fields
from edgeserve.messages import Candidate, TokenLogprob

MAX_CHAT, MAX_COMPLETION = 20, 5
"""Alternatives, as in OpenAI's own API."""


def read_chat(fields: Fields) -> int | None:
    """``logprobs`` true or false, ``top_logprobs`` how many alternatives; None when not asked for."""
    top = fields.integer("top_logprobs", 0, MAX_CHAT)
    if fields.flag("logprobs"):
        return top or 0
    if top is not None:
        raise fields.error("top_logprobs", "needs logprobs to be true")
    return None


def read_completion(fields: Fields) -> int | None:
    """``logprobs`` is how many alternatives. Those of the prompt, which ``echo`` would add, are not computed."""
    count = fields.integer("logprobs", 0, MAX_COMPLETION)
    if count is not None and fields.flag("echo"):
        raise fields.error("logprobs", "is not supported together with echo: leave one of them out")
    return count


def chat_logprobs(tokens: Sequence[TokenLogprob]) -> dict[str, Any] | None:
    if not tokens:
        return None
    entries = [_entry(one.token) | {"top_logprobs": [_entry(other) for other in one.top]} for one in tokens]
    return {"content": entries, "refusal": None}


def _entry(one: Candidate) -> dict[str, Any]:
    return {"token": one.text, "logprob": one.logprob, "bytes": list(one.data)}


class CompletionLogprobs:
    """Of one answer, in as many pieces as it comes; ``text_offset`` counts characters of the answer's text."""

    def __init__(self) -> None:
        self._offset = 0
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def feed(self, tokens: Sequence[TokenLogprob]) -> dict[str, Any] | None:
        if not tokens:
            return None
        offsets = []
        for one in tokens:
            offsets.append(self._offset)
            self._offset += len(self._decoder.decode(one.token.data))
        return {
            "tokens": [_label(one.token) for one in tokens],
            "token_logprobs": [one.token.logprob for one in tokens],
            "top_logprobs": [_ranked(one) for one in tokens] if tokens[0].top else None,
            "text_offset": offsets,
        }


def _ranked(one: TokenLogprob) -> dict[str, float]:
    """The likeliest, and the token itself, were it none of them."""
    return {_label(other): other.logprob for other in (*one.top, one.token)}


def _label(one: Candidate) -> str:
    """The token's text; of one that is part of a character, its bytes, in OpenAI's way."""
    try:
        return one.data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in one.data)
