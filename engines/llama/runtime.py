"""llama.cpp's low-level bindings, loaded once, its log turned into ours."""

from __future__ import annotations

import collections
import contextlib
import functools
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

log = logging.getLogger("edgeserve.llama")

WARN, ERROR = 3, 4
SPINS = "500"
"""Turns that a thread of GNU's OpenMP waits for the others before it sleeps. Its default, 300,000, holds a core that
someone else needs: measured beside one busy process on 2 cores, under 7 tokens a second against 35, and 120 alone with
either."""
recent_errors: collections.deque[str] = collections.deque(maxlen=5)
"""Last lines that llama.cpp logged as errors: its calls only return null."""


@functools.cache
def llama() -> Any:
    """The module ``llama_cpp.llama_cpp``, its backend initialised."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # read once, when the library comes in
    import llama_cpp._utils as utilities
    import llama_cpp.llama_cpp as bindings

    # Opened on import for the high-level class, which is not used here, and never closed.
    for name in ("outnull_file", "errnull_file"):
        if (file := getattr(utilities, name, None)) is not None:
            file.close()
    bindings.llama_log_set(_callback(bindings), None)
    bindings.llama_backend_init()
    return bindings


@functools.cache
def mtmd() -> Any:
    """The module ``llama_cpp.mtmd_cpp``: pictures into embeddings."""
    import llama_cpp.mtmd_cpp as bindings

    callback = _callback(llama())
    bindings.mtmd_log_set(callback, None)
    bindings.mtmd_helper_log_set(callback, None)
    return bindings


@functools.cache
def _callback(bindings: Any) -> Any:
    # Cached, since the library keeps a pointer to it for as long as it lives.
    def tell(level: int, text: bytes, user: object) -> None:
        line = text.decode(errors="replace").rstrip()
        if level == ERROR and line:
            recent_errors.append(line)
        for listener in _listeners:
            listener(line)
        if line:
            log.debug("%s", line)

    return bindings.llama_log_callback(tell)


_listeners: list[Callable[[str], None]] = []


@contextlib.contextmanager
def telling(listener: Callable[[str], None]) -> Iterator[None]:
    """Every line that llama.cpp logs meanwhile goes to ``listener`` too."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def why() -> str:
    """What llama.cpp said last of a failure, in brackets; empty when it said nothing."""
    said = "; ".join(recent_errors)
    recent_errors.clear()
    return f" ({said})" if said else ""
