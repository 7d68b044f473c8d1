"""llama.cpp's RPC backend: layers of a model on other machines (ggml/include/ggml-rpc.h).

The usual build of llama-cpp-python lacks it. ``tools/rpc.sh`` builds it as a library of its own, which fits one
version of llama.cpp only. A llama-cpp-python that was built with -DGGML_RPC=ON has it, too.
"""

from __future__ import annotations

import ctypes
import functools
import importlib.util
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from edgeserve.engines.llama.bindings import PACKAGE, load, version
from edgeserve.engines.llama.runtime import error_details, llama
from edgeserve.errors import EngineFailure

BUILT_IN = ("libggml-rpc.so", "libggml-rpc.dylib")
"""The backend in a llama.cpp that was built with it, and registers it itself."""
MISSING = (
    "llama.cpp is installed without RPC, which splits a model over machines: install it with `EDGESERVE_RPC=1 make "
    "serve` in the folder of edgeserve, on each of the machines"
)
SERVER = ctypes.CFUNCTYPE(
    None, ctypes.c_char_p, ctypes.c_char_p, ctypes.c_size_t, ctypes.c_size_t, ctypes.POINTER(ctypes.c_void_p)
)
"""ggml_backend_rpc_start_server: endpoint, cache folder or null, threads, number of devices, devices."""
ADD = ctypes.CFUNCTYPE(ctypes.c_void_p, ctypes.c_char_p)
"""ggml_backend_rpc_add_server: a registry of the devices at an endpoint."""


def plugin() -> Path | None:
    """The library of the RPC backend; None where it is not installed. Loads nothing."""
    spec = importlib.util.find_spec(PACKAGE)
    folders = (spec.submodule_search_locations if spec else None) or ()
    names = (f"libggml-rpc-{version()}.so", *BUILT_IN)
    found = (Path(folder) / "lib" / name for folder in folders for name in names)
    return next((path for path in found if path.is_file()), None)


@functools.cache
def library() -> Any:
    """The functions of libggml that this room needs, with their types."""
    llama()
    libggml = load("_ggml").libggml
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for name, result, arguments in (
        ("ggml_backend_reg_by_name", pointer, (text,)),
        ("ggml_backend_load", pointer, (text,)),
        ("ggml_backend_register", None, (pointer,)),
        ("ggml_backend_reg_get_proc_address", pointer, (pointer, text)),
        ("ggml_backend_reg_dev_count", ctypes.c_size_t, (pointer,)),
        ("ggml_backend_reg_dev_get", pointer, (pointer, ctypes.c_size_t)),
        ("ggml_backend_dev_by_type", pointer, (ctypes.c_int,)),
        ("ggml_backend_dev_memory", None, (pointer, *[ctypes.POINTER(ctypes.c_size_t)] * 2)),
    ):
        function = getattr(libggml, name)
        function.argtypes, function.restype = arguments, result
    return libggml


def function(name: str, form: Any) -> Any:
    """A function of the RPC backend. Raises EngineFailure where the backend is not installed."""
    ggml = library()
    found = ggml.ggml_backend_reg_by_name(b"RPC")
    if not found and (path := plugin()):
        found = ggml.ggml_backend_load(str(path).encode())
    address = ggml.ggml_backend_reg_get_proc_address(found, name.encode()) if found else None
    if not address:
        raise EngineFailure(f"{MISSING}{error_details()}")
    return form(address)


def devices(endpoints: Sequence[str]) -> list[int]:
    """llama.cpp's devices of the workers at these endpoints, one each.

    llama.cpp ends the process when it cannot connect. Raises EngineFailure.
    """
    ggml, add = library(), function("ggml_backend_rpc_add_server", ADD)
    found = []
    for endpoint in endpoints:
        registry = add(endpoint.encode())
        if not registry or ggml.ggml_backend_reg_dev_count(registry) != 1:
            raise EngineFailure(f"{endpoint} offers no memory, or several devices: start `edgeserve rpc-worker` there")
        found.append(int(ggml.ggml_backend_reg_dev_get(registry, 0)))
    return found
