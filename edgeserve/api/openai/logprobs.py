"""Log probabilities of tokens, in the shapes of chat completions and completions."""

from __future__ import annotations

import codecs
from collections.abc import Sequence
from typing import Any

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.schema import Field, Record
from edgeserve.api.values import Integer
from edgeserve.messages import Candidate, TokenLogprob

MAX = 20
"""Alternatives, as in OpenAI's chat."""


class Logged(Field[int | None]):
    """``logprobs``: true or false, or the number of alternatives to each token. None: no log probabilities."""

    def __init__(self) -> None:
        super().__init__("tell how likely each token was: true, or the number of alternatives told with each", None)

    def read(self, fields: Fields, limits: Limits) -> int | None:
        given = fields.raw(self.name)
        if isinstance(given, bool):
            return 0 if given else None
        return fields.integer(self.name, 0, MAX)

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"oneOf": [{"type": "boolean"}, {"type": "integer", "minimum": 0, "maximum": MAX}]}


class ChatLogprobs(Record):
    """The fields of chat completions about log probabilities."""

    logprobs = Logged()
    top_logprobs = Integer("alternatives told with each token; needs logprobs", 0, MAX)

    def alternatives(self) -> int | None:
        """Alternatives to each token; None where the request asks for no log probabilities. Raises InvalidRequest."""
        if self.logprobs is None and self.top_logprobs:
            raise self.error("top_logprobs", "needs logprobs to be true")
        return self.logprobs if self.logprobs is None or self.top_logprobs is None else self.top_logprobs


def chat_logprobs(tokens: Sequence[TokenLogprob]) -> dict[str, Any] | None:
    if not tokens:
        return None
    entries = [_entry(one.token) | {"top_logprobs": [_entry(other) for other in one.top]} for one in tokens]
    return {"content": entries, "refusal": None}


def _entry(one: Candidate) -> dict[str, Any]:
    return {"token": one.text, "logprob": one.logprob, "bytes": list(one.data)}


class CompletionLogprobs:
    """Writes the log probabilities of one answer, piece by piece.

    ``text_offset`` counts the characters of the answer before a token.
    """

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
    """The alternatives, and the token itself."""
    return {_label(other): other.logprob for other in (*one.top, one.token)}


def _label(one: Candidate) -> str:
    """The token's text. For a token that is part of a character, its bytes, as OpenAI writes them."""
    try:
        return one.data.decode()
    except UnicodeDecodeError:
        return "bytes:" + "".join(f"\\x{byte:02x}" for byte in one.data)
