"""Relevance of documents by ranking models: encoders with a head, and language models that answer yes or no."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Generator, Iterator, Sequence
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.engine import Cancel, ModelSpec
from edgeserve.engines.llama import model as llama_model
from edgeserve.engines.llama.context import Context
from edgeserve.engines.llama.ladder import LlamaLadder
from edgeserve.engines.llama.model import MappedModel, metadata
from edgeserve.engines.llama.pairs import Pair, Pairs
from edgeserve.engines.llama.purpose import has_head
from edgeserve.engines.llama.runtime import llama
from edgeserve.engines.whole_texts import at_once, read_documents
from edgeserve.errors import ConfigError, EngineFailure
from edgeserve.messages import RerankEvent, RerankRequest

YES_OR_NO = frozenset({"qwen3", "qwen3vl"})
"""Architectures whose head gives the probabilities of "yes" and "no"; the others give one logit
(llama.cpp src/llama-graph.cpp, build_pooling)."""
TOGETHER = 256
"""Tokens in one call at most, except for a single longer pair. A cancel waits for one call. Short documents take half
the time together; in a call of more tokens, long ones take longer (docs/decisions/0024-encoders.md)."""
HEADLESS = "this model has no ranking head; take one that was made for ranking, such as bge-reranker"
SMALLEST = 1e-37
"""Least probability, so that each has a logarithm."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """The pairs of a request for texts of at most ``longest`` tokens."""

    pairs: Sequence[Pair]
    longest: int


class LlamaRerank(LlamaLadder):
    """Files: ``model``. Options: engines/llama/options.py; ``context`` is the longest query with one document.

    Any thread may call ``prepare``; one thread at a time calls the other methods.
    """

    beside, starved = 0, False

    def __init__(self, spec: ModelSpec) -> None:
        """Raises ConfigError for a file that cannot rank. ``open`` reports one that is missing or damaged."""
        super().__init__(spec)
        path = spec.files["model"]
        try:
            ranks = has_head(path)
        except EngineFailure:  # pulled again or mended, it opens
            return
        if not ranks:
            raise ConfigError(f"{path}: {HEADLESS}", param="model")

    @property
    def slots(self) -> int:
        return self.options.parallel

    def open(self) -> None:
        if self._model is None and not has_head(self.spec.files["model"]):  # another file than at the start
            raise EngineFailure(f"{self.spec.files['model']}: {HEADLESS}")
        super().open()

    def _make_context(self, model: MappedModel) -> Context:
        classes, expected = int(llama().llama_model_n_cls_out(model.handle)), 2 if _yes_or_no(model) else 1
        if classes != expected:
            text = f"its head has {classes} classes; a ranking model of this kind has {expected}"
            raise EngineFailure(f"{model.path}: {text}")
        return super()._make_context(model)

    def rerank(self, request: RerankRequest, cancel: Cancel) -> Iterator[RerankEvent]:
        with contextlib.closing(self.run(request, cancel)) as events:
            yield from (event for event in events if event is not None)

    def prepare(self, request: RerankRequest) -> Prepared | None:
        """Tokens of a request. Any thread. None when the engine is closed: then ``run`` prepares."""
        model = self._model
        if model is None or not llama_model.hold(model):
            return None
        try:
            longest = self._longest_text()
            most = min(longest, request.max_tokens or longest)
            pairs = Pairs(model, request.query, most, request.max_document_tokens)
            return Prepared(at_once(read_documents(request, pairs.pair, pairs.limit)), longest)
        finally:
            llama_model.release(model)

    def run(
        self, request: RerankRequest, cancel: Cancel, prepared: object | None = None
    ) -> Generator[RerankEvent | None, None, None]:
        """One event for each document; None after each call of llama.cpp."""
        if self._model is None or self._batch is None:
            raise EngineFailure(f"{self.spec.name} is {self.rung.name.lower()}, not hot")
        ready = prepared if isinstance(prepared, Prepared) else None
        if ready is None or ready.longest > self._longest_text():  # the context may have become smaller meanwhile
            ready = self.prepare(request)
        if ready is None:
            raise EngineFailure(f"{self.spec.name} was closed before it could answer")
        context, yes_or_no = self._batch.context, _yes_or_no(self._model)
        for pairs in together(ready.pairs, context.sequences, min(TOGETHER, context.outputs)):
            if cancel.is_set():
                return
            rows = context.pool([pair.tokens for pair in pairs], 2 if yes_or_no else 1)
            for pair, row in zip(pairs, rows, strict=True):
                yield RerankEvent(_logit(row, self.spec.name), len(pair.tokens), pair.cut)
            yield None

    def step(self) -> None:
        """Each run computes for itself."""

    def idle_work(self) -> Iterator[None]:
        yield from ()


def together(pairs: Sequence[Pair], most: int, most_tokens: int) -> Iterator[list[Pair]]:
    """The pairs in their order, as many as go into one call: ``most``, of ``most_tokens`` unless there is only one."""
    found, tokens = list[Pair](), 0
    for pair in pairs:
        if found and (len(found) == most or tokens + len(pair.tokens) > most_tokens):
            yield found
            found, tokens = [], 0
        found.append(pair)
        tokens += len(pair.tokens)
    if found:
        yield found


def _yes_or_no(model: MappedModel) -> bool:
    return metadata(model.handle, "general.architecture") in YES_OR_NO


def _logit(row: Any, name: str) -> float:
    """The logit of one row: itself, or that of two probabilities. Raises EngineFailure for no number."""
    values = [float(one) for one in row]
    if not all(map(math.isfinite, values)):
        raise EngineFailure(f"{name} gave a document the relevance {values[0]}; its file may be damaged")
    if len(values) == 1:
        return values[0]
    yes, no = (max(one, SMALLEST) for one in values)
    return math.log(yes) - math.log(no)
