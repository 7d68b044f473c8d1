"""The request of all dialects. Their fields differ in name, so that one record takes them all."""

from __future__ import annotations

from typing import Any

from starlette.requests import Request

from edgeserve.api import models
from edgeserve.api.fields import Fields, kind
from edgeserve.api.json_body import read_json
from edgeserve.api.limits import Limits
from edgeserve.api.line import Call
from edgeserve.api.openai.accepted import Only
from edgeserve.api.question import MAX_TOKENS, Question
from edgeserve.api.rerank.answer import Ranking, RankList
from edgeserve.api.schema import Field
from edgeserve.api.values import Flag, Ignored, Integer, Text
from edgeserve.jobs import Job
from edgeserve.messages import RerankRequest

MAX_DOCUMENTS = 1000
"""Documents of one request, as at Cohere."""
QUERY_CHARS = 65_536
MAX_TOP = 2**31 - 1
JOBS: tuple[Job, ...] = ("rerank",)


class Documents(Field[tuple[str, ...]]):
    """A list of texts, or of objects with a ``text``, whose other fields do not count. At least one."""

    def __init__(self, words: str, limit: int) -> None:
        super().__init__(words, ())
        self._limit = limit

    def read(self, fields: Fields, limits: Limits) -> tuple[str, ...]:
        given, name = fields.raw(self.name), self.name
        if not isinstance(given, list) or not given:
            raise fields.error(name, f"must be a list of at least one text, not {_found(given)}")
        if len(given) > self._limit:
            raise fields.error(name, f"has {len(given)} entries; the limit is {self._limit}")
        return tuple(_text(fields, f"{name}[{at}]", item) for at, item in enumerate(given))

    def schema(self, limits: Limits) -> dict[str, Any]:
        text: dict[str, Any] = {"type": "string"}
        document = {"type": "object", "properties": {"text": text}, "required": ["text"]}
        return {"type": "array", "items": {"oneOf": [text, document]}, "minItems": 1, "maxItems": self._limit}


class Rerank(Question):
    """The body of the routes of reranking."""

    query = Text("the question to judge the documents by", required=True, limit=QUERY_CHARS)
    documents = Documents("texts, or objects with a text; or give texts", MAX_DOCUMENTS)
    texts = Documents("TEI's name of documents; the answer is TEI's list, and long texts are errors", MAX_DOCUMENTS)
    top_n = Integer("the best so many; 0 or left out: all", 0, MAX_TOP)
    return_documents = Flag("the answer repeats the documents", default=True)
    return_text = Flag("TEI: the answer repeats the texts")
    raw_scores = Flag("TEI: logits in place of relevance from 0 to 1")
    use_activation = Flag("vLLM: relevance from 0 to 1; without it logits", default=True)
    truncate = Flag("cut longer documents instead of an error; left out: yes for documents, no for texts")
    max_tokens_per_doc = Integer("Cohere: cut each document after so many tokens", 1, MAX_TOKENS)
    truncate_prompt_tokens = Integer(
        "vLLM: tokens of the query with one document at most; -1 or 0: as many as the model reads", -1, MAX_TOKENS
    )
    truncation_direction = Only("right", "Right")
    rank_fields = Only(["text"])
    max_chunks_per_doc = Ignored()
    priority = Ignored()
    user = Ignored()


async def rerank(request: Request) -> Call:
    asked = await read_json(request, Rerank)
    tei = bool(asked.texts)
    if tei == bool(asked.documents):
        raise asked.error("documents", "is required, or texts; not both" if tei else "is required")
    pool = request.app.state.pool
    model = models.choose(pool, asked.model, JOBS)
    documents = asked.texts or asked.documents
    question = RerankRequest(
        asked.query,
        documents,
        max_tokens=pair_tokens(asked.truncate_prompt_tokens),
        max_document_tokens=asked.max_tokens_per_doc,
        cut=asked.truncate if asked.has("truncate") else not tei,
    )
    repeated = asked.return_text if tei else asked.return_documents
    shape = Ranking(
        models.name(pool, model),
        documents if repeated else (),
        top=asked.top_n or len(documents),
        logits=asked.raw_scores or not asked.use_activation,
    )
    names = {"documents": "texts"} if tei else {}
    return Call(model, [question], RankList(shape, tei=tei), asked.keep_alive, threaded=True, names=names)


def pair_tokens(given: int | None) -> int | None:
    """vLLM's limit of a pair; -1, 0 and None: as many tokens as the model reads."""
    return max(0, given or 0) or None


def _text(fields: Fields, name: str, item: Any) -> str:
    text = item.get("text") if isinstance(item, dict) else item
    if not isinstance(text, str):
        raise fields.error(name, "must be a text, or an object with a text")
    return text


def _found(given: Any) -> str:
    return "an empty one" if given == [] else kind(given)
