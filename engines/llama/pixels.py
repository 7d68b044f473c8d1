"""Decodes pictures by the decoder that llama.cpp's multimodal library has for them (stb_image). No model is opened."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.util
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from edgeserve.errors import EngineFailure

NO_FFMPEG = b"/dev/null"
"""Path where the library looks for ffmpeg and ffprobe. It is no folder, so the library can start no program."""
PACKAGE = "llama_cpp"


@contextlib.contextmanager
def rgb(data: bytes) -> Iterator[tuple[int, int, memoryview] | None]:
    """Width, height and bytes of the picture in a file, three bytes a pixel; None where it cannot be decoded.

    The bytes are the library's, and end with the block. Raises EngineFailure where llama-cpp-python is missing.
    """
    library = load()
    bitmap = decoded(library, None, data)
    if not bitmap:
        yield None
        return
    try:
        size = int(library.mtmd_bitmap_get_n_bytes(bitmap))
        start = ctypes.addressof(library.mtmd_bitmap_get_data(bitmap).contents)
        pixels = memoryview((ctypes.c_uint8 * size).from_address(start)).cast("B")
        yield int(library.mtmd_bitmap_get_nx(bitmap)), int(library.mtmd_bitmap_get_ny(bitmap)), pixels
    finally:
        library.mtmd_bitmap_free(bitmap)


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
    """The module ``llama_cpp.mtmd_cpp`` without its package, whose own imports take ten times as long.

    Only for a process that uses nothing else of llama.cpp. Raises EngineFailure where the package is missing.
    """
    if PACKAGE not in sys.modules:
        spec = importlib.util.find_spec(PACKAGE)
        if spec is None:
            raise EngineFailure("pictures need llama-cpp-python: pip install llama-cpp-python")
        package = ModuleType(PACKAGE)
        package.__spec__, package.__path__ = spec, list(spec.submodule_search_locations or ())
        sys.modules[PACKAGE] = package
    import llama_cpp.llama_cpp as runtime
    import llama_cpp.mtmd_cpp as bindings

    quiet = _quiet(runtime)
    bindings.mtmd_log_set(quiet, None)
    bindings.mtmd_helper_log_set(quiet, None)
    return bindings


@functools.cache
def _quiet(runtime: Any) -> Any:
    # Cached, since the library keeps a pointer to the callback. The lines name ffmpeg, not the picture.
    return runtime.llama_log_callback(lambda level, text, user: None)
