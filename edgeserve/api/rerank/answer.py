"""The answer: one body with what each dialect reads, or TEI's bare list."""

from __future__ import annotations

import json
import math
import secrets
from collections.abc import Sequence
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.errors import EdgeserveError
from edgeserve.messages import Event, RerankEvent

SEARCH_UNIT = 100
"""Documents of one search unit (Cohere's pricing)."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """The wishes of a client.

    Fields:
        model      public name of the model
        documents  texts to repeat; empty: the answer repeats none
        top        the best so many
        logits     numbers as the model gives them, in place of relevance from 0 to 1
    """

    model: str
    documents: Sequence[str]
    top: int
    logits: bool = False


class RankList:
    """The renderer. The best document comes first; equal scores keep the order of the request."""

    stream = False
    media_type = "application/json"

    def __init__(self, wanted: Ranking, *, tei: bool = False) -> None:
        self._wanted = wanted
        self._tei = tei
        self._found: list[RerankEvent] = []

    def feed(self, index: int, event: Event) -> bytes:
        if isinstance(event, RerankEvent):
            self._found.append(event)
        return b""

    def end(self) -> bytes:
        best = sorted(range(len(self._found)), key=lambda at: -self._found[at].logit)[: self._wanted.top]
        # One by one: a single call of C for 16 MB of documents would stop all other requests.
        results = b", ".join(json.dumps(self._result(at)).encode() for at in best)
        if self._tei:
            return b"[%b]" % results
        return b'{"results": [%b], %b' % (results, json.dumps(self._rest()).encode()[1:])

    def fail(self, error: EdgeserveError) -> bytes:
        return b""

    def _result(self, at: int) -> dict[str, Any]:
        score = shown(self._found[at].logit, self._wanted.logits)
        found: dict[str, Any] = {"index": at, "score" if self._tei else "relevance_score": score}
        if self._wanted.documents:
            text = self._wanted.documents[at]
            found |= {"text": text} if self._tei else {"document": {"text": text}}
        return found

    def _rest(self) -> dict[str, Any]:
        """All but the results."""
        tokens, cut = sum(one.tokens for one in self._found), sum(one.cut for one in self._found)
        units = {"search_units": -(-len(self._found) // SEARCH_UNIT)}
        meta: dict[str, Any] = {"api_version": {"version": "2"}, "billed_units": units}
        meta["tokens"] = {"input_tokens": tokens, "output_tokens": 0}
        if cut:
            meta["warnings"] = [f"{cut} of {len(self._found)} documents were cut to what the model reads"]
        return {
            "id": f"rerank-{secrets.token_hex(12)}",
            "object": "list",
            "model": self._wanted.model,
            "usage": {"prompt_tokens": tokens, "total_tokens": tokens},
            "meta": meta,
        }


def shown(logit: float, logits: bool) -> float:
    """The score that a client gets: a logit or a relevance, with all digits that a float32 has."""
    return float(f"{logit if logits else relevance(logit):.9g}")


def relevance(logit: float) -> float:
    """The sigmoid of a logit, from 0 to 1."""
    small = math.exp(-abs(logit))
    return (1.0 if logit >= 0 else small) / (1.0 + small)
