"""vLLM's scores: texts judged by one text, or pairs of texts."""

from __future__ import annotations

import json
import secrets
from collections import defaultdict

from starlette.requests import Request

from edgeserve.api import models
from edgeserve.api.json_body import read_json
from edgeserve.api.line import Call
from edgeserve.api.question import MAX_TOKENS, Question
from edgeserve.api.rerank.answer import shown
from edgeserve.api.rerank.request import JOBS, MAX_DOCUMENTS, QUERY_CHARS, pair_tokens
from edgeserve.api.values import Flag, Ignored, Integer, Texts
from edgeserve.errors import EdgeserveError
from edgeserve.messages import Event, RerankEvent, RerankRequest

MAX_QUERIES = 64
"""Pairs that differ in both texts: each is a request of its own to the engine."""


class Score(Question):
    """The body of POST /v1/score and /score."""

    text_1 = Texts("a text to judge by, or one for each text_2", MAX_QUERIES, chars=QUERY_CHARS)
    text_2 = Texts("a text to judge, or several", MAX_DOCUMENTS)
    use_activation = Flag("relevance from 0 to 1; without it logits", default=True)
    truncate_prompt_tokens = Integer("tokens of a pair at most; -1 or 0: as many as the model reads", -1, MAX_TOKENS)
    priority = Ignored()
    user = Ignored()


async def score(request: Request) -> Call:
    asked = await read_json(request, Score)
    first, second = asked.text_1, asked.text_2
    for name, texts in (("text_1", first), ("text_2", second)):
        if not texts or (name == "text_1" and not all(map(str.strip, texts))):
            raise asked.error(name, "is required and must not be empty")
    if len(first) not in (1, len(second)):
        raise asked.error("text_2", f"has {len(second)} entries; text_1 has {len(first)}: give as many, or one text_1")
    pool = request.app.state.pool
    model = models.choose(pool, asked.model, JOBS)
    most = pair_tokens(asked.truncate_prompt_tokens)
    alone = len(first) == 1
    pairs = [(first[0], second)] if alone else [(one, (other,)) for one, other in zip(first, second, strict=True)]
    requests = [RerankRequest(query, documents, max_tokens=most) for query, documents in pairs]
    renderer = ScoreList(models.name(pool, model), logits=not asked.use_activation)
    names = {"query": "text_1", "documents": "text_2"}
    return Call(model, requests, renderer, asked.keep_alive, names=names)


class ScoreList:
    """The renderer: scores in the order of the texts."""

    stream = False
    media_type = "application/json"

    def __init__(self, model: str, *, logits: bool = False) -> None:
        self._model = model
        self._logits = logits
        self._found: defaultdict[int, list[RerankEvent]] = defaultdict(list)

    def feed(self, index: int, event: Event) -> bytes:
        if isinstance(event, RerankEvent):
            self._found[index].append(event)
        return b""

    def end(self) -> bytes:
        events = [event for _, events in sorted(self._found.items()) for event in events]
        tokens = sum(event.tokens for event in events)
        data = [
            {"index": at, "object": "score", "score": shown(event.logit, self._logits)}
            for at, event in enumerate(events)
        ]
        usage = {"prompt_tokens": tokens, "total_tokens": tokens, "completion_tokens": 0}
        head = {"id": f"score-{secrets.token_hex(12)}", "object": "list", "model": self._model}
        return json.dumps({**head, "data": data, "usage": usage}).encode()

    def fail(self, error: EdgeserveError) -> bytes:
        return b""
