"""Chat about pictures: llama.cpp's multimodal library turns them into embeddings on the model's own context."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
from collections.abc import Mapping
from typing import Any

from edgeserve.engine import Cancel, Footprint, ModelSpec, Rung
from edgeserve.errors import ContextOverflow, EngineFailure, UnsupportedMedia
from edgeserve.messages import ChatRequest
from engines import pages
from engines.llama import LlamaChat
from engines.llama_context import BATCH, Cancelled, Context, default_threads
from engines.llama_model import MappedModel
from engines.llama_runtime import mtmd, why
from engines.projector_header import ProjectorShape, read_projector_shape

MARKER = "<__media__>"
"""What stands for a picture in the prompt (mtmd_default_marker)."""
DECODED_BYTES = 64 << 20
"""One picture as sent, of the most pixels that are accepted, and resized."""


class LlamaVision(LlamaChat):
    """Files: ``model`` and ``mmproj``, its projector. Options: engines/llama_options.py.

    The projector is read into memory, not mapped, so it is there only while the engine is hot. The language model is
    shared with the chat engine when both name the same file.
    """

    def __init__(self, spec: ModelSpec) -> None:
        super().__init__(spec)
        self._projector: Any = None

    def estimate(self) -> Footprint:
        text, projector = super().estimate(), self.spec.files["mmproj"].stat().st_size
        picture = DECODED_BYTES + self._picture.image_bytes(self.options.image_max_tokens)
        return dataclasses.replace(text, private=text.private + projector, per_request=text.per_request + picture)

    def savings(self) -> Mapping[str, int]:
        """Also smaller pictures, where the projector takes them of any size."""
        image = 0 if self.rung is Rung.HOT else self._picture.savable(self.options.image_max_tokens)
        return {**super().savings(), "image": image}

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
        _ = self._picture  # read before it is needed under a lock; raises EngineFailure for what is no projector
        super().open()

    def _make_context(self, model: MappedModel) -> Context:
        self._projector = self._read_projector(model)
        try:
            return super()._make_context(model)
        except EngineFailure:
            self._free_projector()
            raise

    def _free_context(self, context: Context) -> None:
        self._free_projector()
        super()._free_context(context)

    def _read_projector(self, model: MappedModel) -> Any:
        library = mtmd()
        parameters = library.mtmd_context_params_default()
        parameters.use_gpu = self.spec.device != "cpu" and self.options.gpu_layers != 0
        parameters.n_threads = self.spec.threads or default_threads()
        parameters.print_timings = False
        parameters.warmup = False
        if self.options.image_max_tokens:
            parameters.image_max_tokens = self.options.image_max_tokens
        if self.options.image_min_tokens:
            parameters.image_min_tokens = self.options.image_min_tokens
        path = self.spec.files["mmproj"]
        projector = library.mtmd_init_from_file(str(path).encode(), model.handle, parameters)
        if not projector:
            raise EngineFailure(f"{path}: llama.cpp cannot read it as a projector of {model.path.name}{why()}")
        if not library.mtmd_support_vision(projector):
            library.mtmd_free(projector)
            raise EngineFailure(f"{path}: this projector takes no pictures")
        return projector

    def _free_projector(self) -> None:
        if self._projector is not None:
            mtmd().mtmd_free(self._projector)
            self._projector = None
            pages.trim_heap()

    def _prefill(self, model: MappedModel, context: Context, request: ChatRequest, cancel: Cancel) -> tuple[int, int]:
        if not request.images:
            return super()._prefill(model, context, request, cancel)
        chunks = mtmd().mtmd_input_chunks_init()
        try:
            self._tokenize(chunks, self.prompt(model, request, MARKER), request)
            return self._evaluate(chunks, context, cancel), 0
        finally:
            mtmd().mtmd_input_chunks_free(chunks)

    def _tokenize(self, chunks: Any, prompt: str, request: ChatRequest) -> None:
        """Cut the prompt into chunks of text tokens and of pictures. Raises UnsupportedMedia."""
        library, data = mtmd(), prompt.encode()
        bitmaps: list[Any] = []
        try:
            for number, image in enumerate(request.images, start=1):
                buffer = (ctypes.c_uint8 * len(image.data)).from_buffer_copy(image.data)
                bitmap = library.mtmd_helper_bitmap_init_from_buf(self._projector, buffer, len(image.data), False)
                if not bitmap:
                    raise UnsupportedMedia(f"image {number} cannot be decoded{why()}", param="image")
                bitmaps.append(bitmap)
            text = library.mtmd_input_text(data, len(data), False, True)
            array = (library.mtmd_bitmap_p_ctypes * len(bitmaps))(*bitmaps)
            code = library.mtmd_tokenize(self._projector, chunks, ctypes.byref(text), array, len(bitmaps))
        finally:
            for bitmap in bitmaps:
                library.mtmd_bitmap_free(bitmap)
        if code != 0:
            raise UnsupportedMedia(f"the images cannot be prepared for this model (code {code}){why()}", param="image")

    def _evaluate(self, chunks: Any, context: Context, cancel: Cancel) -> int:
        """Decode all chunks from the start of the context, a cancel heard between them; returns their tokens."""
        library = mtmd()
        tokens = int(library.mtmd_helper_get_n_tokens(chunks))
        if tokens >= context.size:
            raise ContextOverflow(
                f"text and images make {tokens} tokens; the context holds {context.size}: send fewer or smaller "
                "images, set image_max_tokens, or raise context in models.toml",
                param="messages",
            )
        context.clear()
        position = ctypes.c_int32(0)
        count = int(library.mtmd_input_chunks_size(chunks))
        for index in range(count):
            if cancel.is_set():
                context.clear()
                raise Cancelled
            chunk = library.mtmd_input_chunks_get(chunks, index)
            code = library.mtmd_helper_eval_chunk_single(
                self._projector,
                context.handle,
                chunk,
                position.value,
                0,
                BATCH,
                index == count - 1,
                ctypes.byref(position),
            )
            if code != 0:
                context.clear()
                raise EngineFailure(f"{self.spec.name}: llama.cpp ended reading an image with code {code}{why()}")
        context.moved(position.value)
        return tokens
