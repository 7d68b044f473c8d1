"""llama.cpp's multimodal library: pictures in a prompt become embeddings, decoded into the model's own context."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from edgeserve.engine import ModelSpec
from edgeserve.errors import EngineFailure, UnsupportedMedia
from engines import pages
from engines.llama_context import BATCH, Context, default_threads
from engines.llama_model import MappedModel
from engines.llama_options import LlamaOptions
from engines.llama_runtime import mtmd, why

MARKER = "<__media__>"
"""What stands for a picture in the prompt (mtmd_default_marker)."""
TEXT_CHUNK = 0
"""enum mtmd_input_chunk_type."""


class Chunk(NamedTuple):
    """A piece of a prompt: text as ``tokens``, or a picture of ``size`` tokens. ``handle`` is the library's."""

    handle: Any
    size: int
    tokens: tuple[int, ...] | None


class Chunks:
    """A prompt cut into text and pictures; free it when done."""

    def __init__(self) -> None:
        self.handle = mtmd().mtmd_input_chunks_init()

    def __iter__(self) -> Iterator[Chunk]:
        library, count = mtmd(), ctypes.c_size_t()
        for index in range(library.mtmd_input_chunks_size(self.handle)):
            chunk = library.mtmd_input_chunks_get(self.handle, index)
            size, tokens = int(library.mtmd_input_chunk_get_n_tokens(chunk)), None
            if library.mtmd_input_chunk_get_type(chunk) == TEXT_CHUNK:
                tokens = tuple(library.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(count))[:size])
            yield Chunk(chunk, size, tokens)

    def free(self) -> None:
        mtmd().mtmd_input_chunks_free(self.handle)


class Projector:
    """The projector file, read into memory. Raises EngineFailure naming it."""

    def __init__(self, model: MappedModel, spec: ModelSpec, options: LlamaOptions) -> None:
        library, self._path = mtmd(), spec.files["mmproj"]
        parameters = library.mtmd_context_params_default()
        parameters.use_gpu = spec.device != "cpu" and options.gpu_layers != 0
        parameters.n_threads = spec.threads or default_threads()
        parameters.print_timings = False
        parameters.warmup = False
        if options.image_max_tokens:
            parameters.image_max_tokens = options.image_max_tokens
        if options.image_min_tokens:
            parameters.image_min_tokens = options.image_min_tokens
        self._handle = library.mtmd_init_from_file(str(self._path).encode(), model.handle, parameters)
        if not self._handle:
            raise EngineFailure(f"{self._path}: llama.cpp cannot read it as a projector of {model.path.name}{why()}")
        if not library.mtmd_support_vision(self._handle):
            self.free()
            raise EngineFailure(f"{self._path}: this projector takes no pictures")

    def free(self) -> None:
        mtmd().mtmd_free(self._handle)
        pages.trim_heap()

    def cut(self, prompt: str, images: Sequence[bytes]) -> Chunks:
        """The prompt, each MARKER in it a picture, in chunks. Raises UnsupportedMedia."""
        library, data = mtmd(), prompt.encode()
        bitmaps: list[Any] = []
        chunks = Chunks()
        try:
            bitmaps += (self._decoded(number, image) for number, image in enumerate(images, start=1))
            text = library.mtmd_input_text(data, len(data), False, True)
            array = (library.mtmd_bitmap_p_ctypes * len(bitmaps))(*bitmaps)
            code = library.mtmd_tokenize(self._handle, chunks.handle, ctypes.byref(text), array, len(bitmaps))
            if code != 0:
                text = f"the images cannot be prepared for this model (code {code}){why()}"
                raise UnsupportedMedia(text, param="image")
        except UnsupportedMedia:
            chunks.free()
            raise
        finally:
            for bitmap in bitmaps:
                library.mtmd_bitmap_free(bitmap)
        return chunks

    def _decoded(self, number: int, image: bytes) -> Any:
        buffer = (ctypes.c_uint8 * len(image)).from_buffer_copy(image)
        bitmap = mtmd().mtmd_helper_bitmap_init_from_buf(self._handle, buffer, len(image), False)
        if not bitmap:
            raise UnsupportedMedia(f"image {number} cannot be decoded{why()}", param="image")
        return bitmap

    def decode(self, context: Context, chunk: Chunk, sequence: int, position: int, *, last: bool) -> int:
        """Encode a picture and decode its embeddings from ``position`` on; returns the next one. ``last``: the answer
        follows. Raises EngineFailure."""
        after = ctypes.c_int32(position)
        code = mtmd().mtmd_helper_eval_chunk_single(
            self._handle, context.handle, chunk.handle, position, sequence, BATCH, last, ctypes.byref(after)
        )
        if code != 0:
            raise EngineFailure(f"{self._path}: llama.cpp ended reading an image with code {code}{why()}")
        return int(after.value)
