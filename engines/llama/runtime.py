"""llama.cpp's low-level bindings, loaded once; its log goes to the server's log."""

from __future__ import annotations

import collections
import contextlib
import functools
import logging
import os
from collections.abc import Callable, Iterator
from typing import Any

from edgeserve.engines.llama.bindings import load

log = logging.getLogger("edgeserve.llama")

WARN, ERROR = 3, 4
SPINS = "50000"
"""Turns that a thread of GNU's OpenMP spins for the others before it sleeps: half a millisecond, more than the time
between two tokens. With 500 a model of a billion weights makes a fifth fewer tokens a second. Beside other programs
``threads.Threads`` leaves them their cores, so that nobody spins on one that another program has."""
recent_errors: collections.deque[str] = collections.deque(maxlen=5)
"""The latest lines that llama.cpp logged as errors. Its functions themselves return only null."""


@functools.cache
def llama() -> Any:
    """The module ``llama_cpp.llama_cpp``, its backend initialised."""
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", SPINS)  # the library reads it once, when it is loaded
    bindings = load("llama_cpp")
    bindings.llama_log_set(_callback(bindings), None)
    bindings.llama_backend_init()
    return bindings


@functools.cache
def mtmd() -> Any:
    """The module ``llama_cpp.mtmd_cpp``, which encodes pictures as embeddings."""
    bindings = load("mtmd_cpp")
    callback = _callback(llama())
    bindings.mtmd_log_set(callback, None)
    bindings.mtmd_helper_log_set(callback, None)
    return bindings


@functools.cache
def _callback(bindings: Any) -> Any:
    # Cached, since the library keeps a pointer to the callback.
    def log_line(level: int, text: bytes, user: object) -> None:
        line = text.decode(errors="replace").rstrip()
        if level == ERROR and line:
            recent_errors.append(line)
        for listener in _listeners:
            listener(line)
        if line:
            log.debug("%s", line)

    return bindings.llama_log_callback(log_line)


_listeners: list[Callable[[str], None]] = []


@contextlib.contextmanager
def log_lines_to(listener: Callable[[str], None]) -> Iterator[None]:
    """Pass every line that llama.cpp logs in the block to ``listener`` too."""
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)


def error_details() -> str:
    """The recent errors of llama.cpp, in parentheses, and forget them; empty without any."""
    said = "; ".join(recent_errors)
    recent_errors.clear()
    return f" ({said})" if said else ""
