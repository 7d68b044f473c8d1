"""Chat about pictures: llama.cpp's multimodal library decodes them into the model's own context."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Generator, Iterator, Mapping

from edgeserve.engine import Cancel, Footprint, ModelSpec, Rung
from edgeserve.engines.llama.answer import Prompt
from edgeserve.engines.llama.background import Background
from edgeserve.engines.llama.batch import Batch
from edgeserve.engines.llama.chat import LlamaChat
from edgeserve.engines.llama.context import Context
from edgeserve.engines.llama.facts import facts as facts
from edgeserve.engines.llama.feed import feed
from edgeserve.engines.llama.model import MappedModel
from edgeserve.engines.llama.prepare import Prepared
from edgeserve.engines.llama.projector import Chunks, Projector
from edgeserve.engines.llama.projector_shape import ProjectorShape, read_projector_shape
from edgeserve.errors import Cancelled, ContextOverflow, EngineFailure
from edgeserve.messages import ChatRequest

DECODED_BYTES = 64 << 20
"""Bytes of one decoded picture of the most accepted pixels, and of its resized copy."""


class LlamaVision(LlamaChat):
    """Files: ``model`` and ``mmproj``, its projector. Options: engines/llama/options.py.

    The projector is read into memory, not mapped, so it is loaded only while the engine is hot. The chat engine shares
    the language model when both name the same file.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self._projector: Projector | None = None
        self._marker = f"<__media_{os.urandom(16).hex()}__>"  # random, so that no client can write it

    def estimate(self) -> Footprint:
        text, projector = super().estimate(), self.spec.files["mmproj"].stat().st_size
        picture = DECODED_BYTES + self._picture.image_bytes(self.options.image_max_tokens)
        return dataclasses.replace(text, private=text.private + projector, per_request=text.per_request + picture)

    def savings(self) -> Mapping[str, int]:
        """The savings of LlamaLadder, and smaller pictures if the projector takes any size."""
        return {**super().savings(), "image": 0 if self.rung is Rung.HOT else self._savable()}

    def _savable(self) -> int:
        try:
            return self._picture.savable(self.options.image_max_tokens)
        except EngineFailure:  # a damaged projector offers nothing to others; the request that opens it hears of it
            return 0

    def shed(self, kind: str, amount: int) -> None:
        if kind == "image" and self.rung is not Rung.HOT:
            fewer = self._picture.fewer(self.options.image_max_tokens, amount)
            self.options = dataclasses.replace(self.options, image_max_tokens=fewer)
        else:
            super().shed(kind, amount)

    @functools.cached_property
    def _picture(self) -> ProjectorShape:
        return read_projector_shape(self.spec.files["mmproj"])

    def open(self) -> None:
        path = self.spec.files.get("mmproj")
        if path is None or not path.is_file():
            raise EngineFailure(f"{path}: no such projector; name one with mmproj in models.toml")
        _ = self._picture  # read now, not later under a lock; raises EngineFailure for a file that is no projector
        super().open()

    def _make_context(self, model: MappedModel) -> Context:
        self._projector = Projector(model, self.spec, self.options, self._marker)
        try:
            return super()._make_context(model)
        except EngineFailure:
            self._free_projector()
            raise

    def _free_context(self, context: Context) -> None:
        self._free_projector()
        super()._free_context(context)

    def _free_projector(self) -> None:
        if self._projector is not None:
            self._projector.free()
            self._projector = None

    def _take(
        self, batch: Batch, request: ChatRequest, prepared: Prepared, background: Background, cancel: Cancel
    ) -> Generator[None, None, Prompt]:
        if not prepared.images or self._projector is None:
            return (yield from super()._take(batch, request, prepared, background, cancel))
        chunks = yield from self._cut(self._projector, prepared, background)
        tokens = sum(chunk.size for chunk in chunks)
        if tokens >= batch.context.size:
            chunks.free()
            raise ContextOverflow(
                f"text and images make {tokens} tokens; the context holds {batch.context.size}: send fewer or smaller "
                "images, set image_max_tokens, or raise context in models.toml",
                param="messages",
                figures=(tokens, batch.context.size - 1),
            )
        try:
            yield from batch.seats.until_free(cancel)
        except (GeneratorExit, Cancelled):
            chunks.free()
            raise
        slot = batch.take_empty(self._adapters(request), request.salt)
        return Prompt(slot, tokens, chunks=chunks, thinks=prepared.thinks)

    def _count(self, request: ChatRequest, prepared: Prepared, background: Background) -> Generator[None, None, int]:
        if not prepared.images or self._projector is None:
            return (yield from super()._count(request, prepared, background))
        chunks = yield from self._cut(self._projector, prepared, background)
        try:
            return sum(chunk.size for chunk in chunks)
        finally:
            chunks.free()

    def _cut(self, projector: Projector, prepared: Prepared, background: Background) -> Generator[None, None, Chunks]:
        """Text and pictures of the prompt, to be freed by the caller."""
        cut = functools.partial(projector.cut, prepared.text, prepared.images)
        return (yield from background.run(cut, lambda chunks: chunks.free()))

    def _feed(self, batch: Batch, prompt: Prompt, cancel: Cancel) -> Iterator[None]:
        """Decode a prompt with pictures, in steps of the batch. A cancel takes effect between steps."""
        if prompt.chunks is not None and self._projector is not None:
            yield from feed(batch, prompt.slot, tuple(prompt.chunks), self._projector, cancel)

    def _done(self, batch: Batch, prompt: Prompt) -> None:
        super()._done(batch, prompt)
        if prompt.chunks is not None:
            prompt.chunks.free()
