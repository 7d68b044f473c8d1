"""Embeddings by models trained for them: encoders such as BERT, and adapted language models."""

from __future__ import annotations

from collections.abc import Generator

from edgeserve.engine import Cancel
from edgeserve.errors import EngineFailure, NotSupported
from edgeserve.messages import ChatRequest, EmbeddingEvent, EmbedRequest, SlotRequest
from engines.llama.adapters import Active
from engines.llama.chat import LlamaChat
from engines.llama.context import Context
from engines.llama.embed import unit
from engines.llama.model import MappedModel
from engines.llama.options import context_size
from engines.llama.prepare import Prepared
from engines.llama.runtime import llama


class LlamaEmbedding(LlamaChat):
    """Files: ``model``. Options: engines/llama/options.py; ``context`` is the longest text in tokens.

    The model's file names the pooling: the mean of all rows, the first row or the last. One text at a time.
    """

    def _make_context(self, model: MappedModel) -> Context:
        context = super()._make_context(model)
        if llama().llama_pooling_type(context.handle) == llama().LLAMA_POOLING_TYPE_RANK:
            context.free()
            raise EngineFailure(f"{model.path}: this model ranks texts, it makes no vectors of them")
        return context

    def prepare(self, request: ChatRequest | EmbedRequest | SlotRequest) -> Prepared | None:
        if not isinstance(request, EmbedRequest):
            raise NotSupported(f"{self.spec.name} makes vectors of texts, it answers nothing", param="model")
        return super().prepare(request)

    def _longest_input(self) -> int:
        """Tokens of the longest text: the model knows no positions beyond its training, even in a larger context."""
        return context_size(self.options, self._read_shape().trained_context)

    def _embed(
        self, prepared: Prepared, cancel: Cancel, adapters: Active
    ) -> Generator[EmbeddingEvent | None, None, None]:
        batch = self._hot()[1]
        for tokens in prepared.inputs:
            if cancel.is_set():
                return
            batch.context.use(adapters)
            yield EmbeddingEvent(unit(batch.context.pool(tokens)), len(tokens))
            yield None
