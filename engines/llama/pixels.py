"""Decodes pictures by the decoder that llama.cpp's multimodal library has for them (stb_image). No model is opened."""

from __future__ import annotations

import contextlib
import ctypes
import functools
from collections.abc import Iterator
from typing import Any

from edgeserve.engines.llama import bindings
from edgeserve.errors import EngineFailure

NO_FFMPEG = b"/dev/null"
"""Path where the library looks for ffmpeg and ffprobe. It is no folder, so the library can start no program."""


def bitmap(library: Any, size: tuple[int, int], pixels: bytes | memoryview) -> Any:
    """The library's copy of a picture. ``size``: width and height; ``pixels``: RGB, three bytes a pixel."""
    view = memoryview(pixels)
    array = ctypes.c_uint8 * view.nbytes
    return library.mtmd_bitmap_init(*size, array.from_buffer_copy(view) if view.readonly else array.from_buffer(view))


@contextlib.contextmanager
def rgb(data: bytes) -> Iterator[tuple[int, int, memoryview] | None]:
    """Width, height and bytes of the picture in a file, three bytes a pixel; None where it cannot be decoded.

    The bytes are the library's, and end with the block. Raises EngineFailure where llama-cpp-python is missing.
    """
    library = load()
    picture = decoded(library, None, data)
    if not picture:
        yield None
        return
    try:
        size = int(library.mtmd_bitmap_get_n_bytes(picture))
        start = ctypes.addressof(library.mtmd_bitmap_get_data(picture).contents)
        pixels = memoryview((ctypes.c_uint8 * size).from_address(start)).cast("B")
        yield int(library.mtmd_bitmap_get_nx(picture)), int(library.mtmd_bitmap_get_ny(picture)), pixels
    finally:
        library.mtmd_bitmap_free(picture)


def decoded(library: Any, projector: Any, data: bytes) -> Any:
    """The library's pointer to a picture, null where the file cannot be decoded.

    Only sound needs the ``projector``, for its rate.
    """
    buffer = ctypes.cast(ctypes.c_char_p(data), ctypes.POINTER(ctypes.c_uint8))  # the bytes themselves: no copy
    # The library tries ffmpeg on any picture that it cannot decode: it might be a video.
    options = library.mtmd_helper_init_opt_default()
    options.video_params.ffmpeg_bin_dir = NO_FFMPEG
    return library.mtmd_helper_bitmap_init_from_buf(projector, buffer, len(data), False, options)


@functools.cache
def load() -> Any:
    """The library, without a model or a backend. Raises EngineFailure where llama-cpp-python is missing."""
    try:
        library = bindings.load("mtmd_cpp")
    except ModuleNotFoundError as error:
        raise EngineFailure(f"pictures cannot be decoded: {error}; pip install llama-cpp-python") from error
    quiet = _quiet()
    library.mtmd_log_set(quiet, None)
    library.mtmd_helper_log_set(quiet, None)
    return library


@functools.cache
def _quiet() -> Any:
    # Cached, since the library keeps a pointer to the callback. The lines name ffmpeg, not the picture.
    return bindings.load("llama_cpp").llama_log_callback(lambda level, text, user: None)
