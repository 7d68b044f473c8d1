"""llama.cpp's multimodal library encodes pictures as embeddings and decodes them into the model's own context."""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

from edgeserve.engine import ModelSpec
from edgeserve.engines.llama.context import MOST_THREADS, NO_ROOM, Context
from edgeserve.engines.llama.model import MappedModel
from edgeserve.engines.llama.options import LlamaOptions
from edgeserve.engines.llama.picture import decode_with_logits
from edgeserve.engines.llama.pixels import bitmap, decoded
from edgeserve.engines.llama.runtime import error_details, mtmd
from edgeserve.errors import Busy, EngineFailure, UnsupportedMedia
from edgeserve.messages import ImagePart
from edgeserve.system import cores, heap

TEXT_CHUNK = 0
"""enum mtmd_input_chunk_type."""


class Chunk(NamedTuple):
    """A piece of a prompt: text as ``tokens``, or a picture of ``size`` tokens. ``handle``: the library's pointer."""

    handle: Any
    size: int
    tokens: tuple[int, ...] | None


class Chunks:
    """A prompt cut into text and pictures. ``free`` it after use; garbage collection frees a forgotten one."""

    def __init__(self) -> None:
        self.handle = mtmd().mtmd_input_chunks_init()
        self.free = weakref.finalize(self, mtmd().mtmd_input_chunks_free, self.handle)

    def __iter__(self) -> Iterator[Chunk]:
        library, count = mtmd(), ctypes.c_size_t()
        for index in range(library.mtmd_input_chunks_size(self.handle)):
            chunk = library.mtmd_input_chunks_get(self.handle, index)
            size, tokens = int(library.mtmd_input_chunk_get_n_tokens(chunk)), None
            if library.mtmd_input_chunk_get_type(chunk) == TEXT_CHUNK:
                tokens = tuple(library.mtmd_input_chunk_get_tokens_text(chunk, ctypes.byref(count))[:size])
            yield Chunk(chunk, size, tokens)


class Projector:
    """The projector file, read into memory. ``marker`` stands for a picture in a prompt.

    Raises EngineFailure naming the file.
    """

    def __init__(self, model: MappedModel, spec: ModelSpec, options: LlamaOptions, marker: str) -> None:
        library, self._path = mtmd(), spec.files["mmproj"]
        self._lock = threading.Lock()
        parameters = library.mtmd_context_params_default()
        parameters.use_gpu = spec.device != "cpu" and options.gpu_layers != 0
        parameters.n_threads = spec.threads or cores.default_threads(MOST_THREADS)
        parameters.print_timings = False
        parameters.warmup = False
        parameters.media_marker = marker.encode()
        if options.image_max_tokens:
            parameters.image_max_tokens = options.image_max_tokens
        if options.image_min_tokens:
            parameters.image_min_tokens = options.image_min_tokens
        self._handle = library.mtmd_init_from_file(str(self._path).encode(), model.handle, parameters)
        if not self._handle:
            text = f"{self._path}: llama.cpp cannot read it as a projector of {model.path.name}{error_details()}"
            raise EngineFailure(text)
        if not library.mtmd_support_vision(self._handle):
            self.free()
            raise EngineFailure(f"{self._path}: this projector takes no pictures")

    def free(self) -> None:
        """Free the projector. Blocks while a background thread cuts a prompt."""
        with self._lock:
            handle, self._handle = self._handle, None
            if handle:
                mtmd().mtmd_free(handle)
        heap.trim()

    def cut(self, prompt: str, images: Sequence[ImagePart]) -> Chunks:
        """Cut a prompt into chunks; each marker in it becomes a picture. Any thread, also during ``decode``.

        Raises UnsupportedMedia, and EngineFailure after ``free``.
        """
        with self._lock:
            if not self._handle:
                raise EngineFailure(f"{self._path}: the projector is freed")
            return self._cut(prompt, images)

    def _cut(self, prompt: str, images: Sequence[ImagePart]) -> Chunks:
        library, data = mtmd(), prompt.encode()
        bitmaps: list[Any] = []
        chunks = Chunks()
        try:
            for number, image in enumerate(images, start=1):
                bitmaps.append(self._bitmap(number, image))
            text = library.mtmd_input_text(data, len(data), False, True)
            array = (library.mtmd_bitmap_p_ctypes * len(bitmaps))(*bitmaps)
            code = library.mtmd_tokenize(self._handle, chunks.handle, ctypes.byref(text), array, len(bitmaps))
            if code != 0:
                text = f"the images cannot be prepared for this model (code {code}){error_details()}"
                raise UnsupportedMedia(text, param=images[0].param)
        except UnsupportedMedia:
            chunks.free()
            raise
        finally:
            for bitmap in bitmaps:
                library.mtmd_bitmap_free(bitmap)
        return chunks

    def _bitmap(self, number: int, image: ImagePart) -> Any:
        """The library's copy of the pixels. Raises UnsupportedMedia for a file that cannot be decoded."""
        if image.size is not None:
            return bitmap(mtmd(), image.size, image.data)
        found = decoded(mtmd(), self._handle, bytes(image.data))
        if not found:
            error_details()  # drop them: they name ffmpeg, not the picture
            text = f"image {number} cannot be decoded: it is damaged, or in a form that the decoder does not know"
            raise UnsupportedMedia(text, param=image.param)
        return found

    def decode(self, context: Context, chunk: Chunk, sequence: int, position: int, *, logits: bool) -> int:
        """Encode a picture and decode its embeddings from ``position`` on; returns the next position.

        ``logits``: those after the picture are the last call's only output. Raises Busy for lack of room, and
        EngineFailure; other sequences are unchanged.
        """
        library, handle, size = mtmd(), self._handle, chunk.size
        if code := library.mtmd_encode_chunk(handle, chunk.handle):
            raise EngineFailure(f"{self._path}: llama.cpp ended encoding an image with code {code}{error_details()}")
        if logits:
            code = decode_with_logits(handle, context, chunk.handle, size, sequence, position)
        else:
            embeddings, after = library.mtmd_get_output_embd(handle), ctypes.c_int32()
            callback = library.mtmd_helper_post_decode_callback()
            code = library.mtmd_helper_decode_image_chunk(
                handle,
                context.handle,
                chunk.handle,
                embeddings,
                position,
                sequence,
                context.batch,
                after,
                callback,
                None,
            )
        if code == NO_ROOM:
            raise Busy("the context has no room for an image beside the answers under way", retry_after=5)
        if code != 0:
            raise EngineFailure(f"{self._path}: llama.cpp ended reading an image with code {code}{error_details()}")
        return position + int(library.mtmd_input_chunk_get_n_pos(chunk.handle))
