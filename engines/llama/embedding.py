"""Embeddings by models trained for them: encoders such as BERT, and adapted language models."""

from __future__ import annotations

from collections.abc import Generator

from edgeserve.engine import Cancel
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.context import Context
from edgeserve.engines.llama.facts import facts as facts
from edgeserve.engines.llama.model import MappedModel
from edgeserve.engines.llama.prepare import Prepared
from edgeserve.engines.llama.runtime import llama
from edgeserve.engines.whole_texts import unit
from edgeserve.errors import EngineFailure, NotSupported
from edgeserve.messages import (
    ContextRequest,
    EmbeddingEvent,
    EmbedRequest,
    TextEvent,
)


class LlamaEmbedding(LlamaChat):
    """Files: ``model``. Options: engines/llama/options.py; ``context`` is the longest text in tokens.

    The model's file names the pooling: the mean of all rows, the first row or the last. One text at a time.
    """

    def _make_context(self, model: MappedModel) -> Context:
        context = super()._make_context(model)
        if llama().llama_pooling_type(context.handle) == llama().LLAMA_POOLING_TYPE_RANK:
            context.free()
            text = "this model ranks texts, it makes no vectors of them; name it under [rerank]"
            raise EngineFailure(f"{model.path}: {text}")
        return context

    def prepare(self, request: ContextRequest) -> Prepared | TextEvent | None:
        if not isinstance(request, EmbedRequest):
            raise NotSupported(f"{self.spec.name} makes vectors of texts, it answers nothing", param="model")
        return super().prepare(request)

    def _longest_input(self) -> int:
        return self._longest_text()

    def _embed(
        self, request: EmbedRequest, prepared: Prepared, cancel: Cancel
    ) -> Generator[EmbeddingEvent | None, None, None]:
        model, batch = self._hot()
        adapters = self._adapters(request)
        width = int(llama().llama_model_n_embd_out(model.handle))
        for tokens in prepared.inputs:
            if cancel.is_set():
                return
            batch.context.use(adapters)
            (row,) = batch.context.pool([tokens], width)
            yield EmbeddingEvent(unit(row), len(tokens))
            yield None
