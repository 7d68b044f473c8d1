"""llama.cpp's RPC server on this machine's processor, for the process behind ``edgeserve rpc-worker``.

It reports its free memory to its clients; its starter also bounds its memory by the kernel.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable

from edgeserve.engines.llama import rpc
from edgeserve.errors import EngineFailure
from edgeserve.system import cores, pages

MOST_THREADS = 8
CPU = 0
"""enum ggml_backend_dev_type"""
GET_MEMORY = 2
"""Place of ``get_memory`` in struct ggml_backend_device_i, with which a ggml_backend_device begins
(ggml/src/ggml-backend-impl.h)."""
REPORT = ctypes.CFUNCTYPE(None, ctypes.c_void_p, *[ctypes.POINTER(ctypes.c_size_t)] * 2)


def serve(endpoint: str, offered: int, budget: Callable[[], int]) -> None:
    """Serve one client after another, for ever. ``offered``: bytes at most; ``budget``: those that there are now.

    Raises EngineFailure without the RPC backend, and when llama.cpp ends its server, as for a port in use.
    """
    start = rpc.function("ggml_backend_rpc_start_server", rpc.SERVER)
    device = rpc.library().ggml_backend_dev_by_type(CPU)
    before = pages.private_bytes()

    def figures() -> tuple[int, int]:
        held = max(0, pages.private_bytes() - before)
        return max(0, min(offered, budget()) - held), offered

    kept = report(device, figures)
    listed = (ctypes.c_void_p * 1)(device)
    start(endpoint.encode(), None, cores.default_threads(MOST_THREADS), 1, listed)
    del kept  # llama.cpp has called it until here
    raise EngineFailure(f"llama.cpp cannot serve {endpoint}: is its port in use, or its address another machine's?")


def report(device: int, figures: Callable[[], tuple[int, int]]) -> object:
    """Let a device of llama.cpp report these free and total bytes; keep the result as long as it does.

    llama.cpp has no call for it: its processor reports all memory of the machine as free. Raises EngineFailure where
    llama.cpp's device is built otherwise.
    """

    def tell(device: int, free: ctypes._Pointer[ctypes.c_size_t], total: ctypes._Pointer[ctypes.c_size_t]) -> None:
        free[0], total[0] = figures()

    kept = REPORT(tell)
    table = (ctypes.c_void_p * (GET_MEMORY + 1)).from_address(device)
    table[GET_MEMORY] = ctypes.cast(kept, ctypes.c_void_p).value
    free, total = ctypes.c_size_t(), ctypes.c_size_t()
    rpc.library().ggml_backend_dev_memory(device, ctypes.byref(free), ctypes.byref(total))
    if total.value != figures()[1]:
        raise EngineFailure("this version of llama.cpp cannot be told how much memory to offer")
    return kept
