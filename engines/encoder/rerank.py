"""Relevance of documents by cross-encoders on ONNX Runtime, such as ms-marco-MiniLM and BGE's rerankers."""

from __future__ import annotations

from collections.abc import Iterator

from edgeserve.engine import Cancel, ModelSpec
from edgeserve.engines.encoder.model import Encoder, EncoderFiles
from edgeserve.engines.encoder.model import prepare as prepare
from edgeserve.engines.onnx.ladder import OnnxLadder
from edgeserve.engines.whole_texts import read_documents
from edgeserve.errors import EngineFailure
from edgeserve.messages import RerankEvent, RerankRequest
from edgeserve.system import heap

LOGITS = "logits"


class OnnxRerank(OnnxLadder[Encoder]):
    """Options: engines/encoder/options.py; ``context`` is the longest query with one document. Files: ``EncoderFiles``.

    One document at a time.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec, EncoderFiles(spec))

    def rerank(self, request: RerankRequest, cancel: Cancel) -> Iterator[RerankEvent | None]:
        model = self._opened()
        pairs = model.tokens.pairs(
            request.query, min(model.longest, request.max_tokens or model.longest), request.max_document_tokens
        )
        read = yield from read_documents(request, pairs.pair, pairs.room.limit, cancel.is_set)
        output = model.output(LOGITS, rank=2)
        try:
            for pair in read:
                if cancel.is_set():
                    return
                found = model.run(pair, output).ravel()
                if len(found) != 1:
                    text = f"{output} has {len(found)} classes; a ranking model has one"
                    raise EngineFailure(f"{model.path}: {text}")
                yield RerankEvent(float(found[0]), len(pair.tokens), pair.cut)
        finally:
            heap.trim()
