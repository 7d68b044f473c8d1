"""llama.cpp's own threads, for builds without OpenMP: kept between calls, spinning while answers are under way.

Without a pool such a build starts and ends its threads in every call. A build with OpenMP has that library's threads,
and ignores a pool (``runtime.SPINS``).
"""

from __future__ import annotations

import ctypes
import functools
import logging
from typing import Any

from edgeserve.engines.llama.bindings import load
from edgeserve.engines.llama.runtime import llama

log = logging.getLogger("edgeserve.llama")

MOST = 512
"""GGML_MAX_N_THREADS."""
POLL = 50
"""Time for which a thread looks for the next call before it sleeps, from 0 to 100; llama.cpp's own default. The pool is
paused when no answer is under way, so an idle server never spins."""


class Parameters(ctypes.Structure):
    """struct ggml_threadpool_params. An empty ``cpumask`` leaves the threads the affinity of the process."""

    _fields_ = (
        ("cpumask", ctypes.c_bool * MOST),
        ("n_threads", ctypes.c_int),
        ("prio", ctypes.c_int),
        ("poll", ctypes.c_uint32),
        ("strict_cpu", ctypes.c_bool),
        ("paused", ctypes.c_bool),
    )


class Pool:
    """The threads of one context. One thread at a time calls it, and never during a call of llama.cpp."""

    def __init__(self, library: Any, runtime: Any, context: Any) -> None:
        self._library = library
        self._runtime = runtime
        self._context = context
        self._pools: dict[tuple[int, int], Any] = {}

    def resize(self, single: int, batch: int) -> None:
        """Have threads for one token and for prompts. Threads that are too many would spin without work."""
        # Two pools that spin would take each other's cores. Prompts make few, long calls: their threads may sleep.
        keys = (single, POLL), (batch, POLL if batch == single else 0)
        old = self._pools
        self._pools = {one: old.get(one) or self._new(*one) for one in dict.fromkeys(keys)}
        self._runtime.llama_attach_threadpool(self._context, *(self._pools[one] for one in keys))
        self._end(pool for one, pool in old.items() if one not in self._pools)

    def pause(self) -> None:
        """Let the threads sleep until the next call wakes them."""
        for pool in self._pools.values():
            self._library.ggml_threadpool_pause(pool)

    def free(self) -> None:
        """End the threads, before the context is freed."""
        self._runtime.llama_detach_threadpool(self._context)
        pools, self._pools = self._pools, {}
        self._end(pools.values())

    def _new(self, count: int, poll: int) -> Any:
        parameters = Parameters()
        self._library.ggml_threadpool_params_init(ctypes.byref(parameters), count)
        parameters.poll, parameters.paused = poll, True
        return self._library.ggml_threadpool_new(ctypes.byref(parameters))

    def _end(self, pools: Any) -> None:
        for pool in pools:
            self._library.ggml_threadpool_free(pool)


class NoPool:
    """Threads that the library keeps itself."""

    def resize(self, single: int, batch: int) -> None:
        pass

    def pause(self) -> None:
        pass

    def free(self) -> None:
        pass


def pool_for(context: Any) -> Pool | NoPool:
    """The pool of a context, empty until ``resize``."""
    library = _library()
    return Pool(library, llama(), context) if library is not None else NoPool()


@functools.cache
def _library() -> Any | None:
    """ggml with the functions of a pool declared; None where a pool is of no use, or of another layout."""
    runtime, library = llama(), load("_ggml").libggml
    return declared(library, runtime, runtime.llama_print_system_info().decode(errors="replace"))


def declared(library: Any, runtime: Any, features: str) -> Any | None:
    """As ``_library``. ``features``: the text in which llama.cpp names what it was built with."""
    if "OPENMP = 1" in features:
        return None
    pointer, settings = ctypes.c_void_p, ctypes.POINTER(Parameters)
    attach, detach = "llama_attach_threadpool", "llama_detach_threadpool"
    try:
        for name, arguments, result in (
            ("ggml_threadpool_params_init", (settings, ctypes.c_int), None),
            ("ggml_threadpool_new", (settings,), pointer),
            ("ggml_threadpool_free", (pointer,), None),
            ("ggml_threadpool_pause", (pointer,), None),
        ):
            function = getattr(library, name)
            function.argtypes, function.restype = arguments, result
        for name, count in ((attach, 3), (detach, 1)):
            # The bindings declare neither function (llama-cpp-python 0.3.36).
            function = getattr(runtime, name, None) or getattr(runtime._lib, name)
            function.argtypes, function.restype = (pointer,) * count, None
            setattr(runtime, name, function)
    except AttributeError as error:
        log.info("llama.cpp starts its threads in each call: %s", error)
        return None
    probe = Parameters()
    library.ggml_threadpool_params_init(ctypes.byref(probe), 3)
    if (probe.n_threads, probe.prio, probe.poll, probe.paused) != (3, 0, POLL, False):
        log.info("llama.cpp starts its threads in each call: its pool has parameters of an unknown layout")
        return None
    return library
