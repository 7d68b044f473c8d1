"""ONNX Runtime sessions with memory settings of our own.

The runtime's own arenas are off: an arena keeps the memory of its longest request, and frees nothing with its session
(docs/memory.md). Worker threads hardly spin, so that they burn no core while a session is idle or others compute.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import importlib
import os
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from edgeserve.device import Device
from edgeserve.engines import model_files
from edgeserve.errors import EngineFailure
from edgeserve.system import cores, heap

PROVIDERS: dict[Device, tuple[str, ...]] = {
    "auto": ("CPUExecutionProvider",),
    "cpu": ("CPUExecutionProvider",),
    "cuda": ("CUDAExecutionProvider", "CPUExecutionProvider"),
    "metal": ("CoreMLExecutionProvider", "CPUExecutionProvider"),
}
"""Execution providers by device. "auto" is the processor: copies to an accelerator would take small models longer."""

SPIN_MICROSECONDS = 80
"""Time that a worker thread waits for the next part of a run before it sleeps. Parts that only one thread computes take
about as long (docs/decisions/0016-constants-of-the-speech-engines.md)."""
SPINS_BRIEFLY = (1, 31)
"""First version that takes a duration; older versions spin a million times."""

MOST_THREADS = 4
"""Default threads of a session at most: speech models gain nothing from more."""


ONE_THREAD = ("OPENBLAS_NUM_THREADS", "VECLIB_MAXIMUM_THREADS")
"""Variables that NumPy's libraries read at import."""


def load() -> None:
    """Import the runtime and NumPy. The process keeps their private memory when all sessions are gone."""
    with _one_thread():
        importlib.import_module("numpy")
    importlib.import_module("onnxruntime")


@contextlib.contextmanager
def _one_thread() -> Iterator[None]:
    """NumPy's products get one thread, unless the user chose another number.

    They are small, and the threads of its library wait for each other by computing
    (docs/decisions/0016-constants-of-the-speech-engines.md).
    """
    missing = [name for name in ONE_THREAD if name not in os.environ]
    os.environ.update(dict.fromkeys(missing, "1"))
    try:
        yield
    finally:
        for name in missing:
            os.environ.pop(name, None)


def version() -> str:
    """Version and build of the runtime."""
    import onnxruntime

    return f"{onnxruntime.__version__} {onnxruntime.get_build_info()}"


def options(threads: int | None = None) -> Any:
    """Fresh ``SessionOptions`` with our memory and thread settings."""
    import onnxruntime

    settings = onnxruntime.SessionOptions()
    settings.intra_op_num_threads = threads or cores.default_threads(MOST_THREADS)
    settings.inter_op_num_threads = 1
    settings.enable_cpu_mem_arena = False
    settings.enable_mem_pattern = False
    settings.log_severity_level = 3
    settings.add_session_config_entry("session.inter_op.allow_spinning", "0")
    if tuple(map(int, onnxruntime.__version__.split(".")[:2])) >= SPINS_BRIEFLY:
        settings.add_session_config_entry("session.intra_op.spin_duration_us", str(SPIN_MICROSECONDS))
        settings.add_session_config_entry("session.force_spinning_stop", "1")
    else:
        settings.add_session_config_entry("session.intra_op.allow_spinning", "0")
    return settings


def uses_gpu(device: Device) -> bool:
    """Whether sessions for this device compute on an accelerator. Imports nothing."""
    return PROVIDERS[device][0] != "CPUExecutionProvider"


def providers(device: Device) -> Sequence[str]:
    """Execution providers for a device, best first. Raises EngineFailure when this build lacks it."""
    import onnxruntime

    wanted = PROVIDERS[device]
    available = onnxruntime.get_available_providers()
    if wanted[0] not in available:
        raise EngineFailure(
            f"device {device!r} needs ONNX Runtime's {wanted[0]}; this build has {', '.join(available)}; "
            'use device = "cpu", or install the build of onnxruntime for that device'
        )
    return wanted


def session(
    path: Path,
    *,
    threads: int | None = None,
    device: Device = "cpu",
    mapped: bool = False,
    optimised: bool = False,
    reuse: bool = False,
) -> Any:
    """Open a graph. Raises EngineFailure naming the file.

    - mapped: the weights lie in a file of their own, and the runtime reads them where they are mapped. Otherwise the
      runtime reorders them into a second, private copy, which is faster (engines/onnx/prepare.py has both).
    - optimised: the graph was written by the runtime's optimiser, which is not run again.
    - reuse: runs are called with ``run(…, reuse=True)``.
    """
    import onnxruntime

    settings = options(threads)
    if reuse:
        _arena.serve(settings)
        settings.add_session_config_entry("session.use_device_allocator_for_initializers", "1")
    if mapped:
        settings.add_session_config_entry("session.disable_prepacking", "1")
    if optimised:
        settings.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    return create(path, settings, device)


def create(path: Path, settings: Any, device: Device = "cpu") -> Any:
    """An ``InferenceSession`` with these ``SessionOptions``. Raises EngineFailure naming the file."""
    import onnxruntime
    from onnxruntime.capi import onnxruntime_pybind11_state as state

    model_files.require([path])
    try:
        return onnxruntime.InferenceSession(str(path), settings, providers=list(providers(device)))
    except (state.Fail, state.InvalidGraph, state.InvalidProtobuf, state.NoSuchFile, state.RuntimeException) as error:
        raise EngineFailure(f"{path}: ONNX Runtime cannot open it: {error}") from error
    except (state.InvalidArgument, state.NotImplemented) as error:
        raise EngineFailure(f"{path}: ONNX Runtime refuses it: {error}") from error


def run(
    session: Any,
    names: Sequence[str] | None,
    inputs: dict[str, Any],
    *,
    reuse: bool = False,
    keep: int = 0,
    passing: bool = False,
) -> list[Any]:
    """Compute the outputs named (None: all). Raises EngineFailure when the runtime fails, out of memory included.

    ``reuse``: nodes use the memory of earlier nodes again. The memory returns to the system when the run ends, except
    for the outputs, whose memory returns with the next run or ``release``. Without ``reuse``, each large activation is
    allocated from the system, with a fault for each page.

    ``keep``: bytes of this run's memory, about, that stay for later runs that need no more. Memory kept for smaller
    runs is returned first. ``release`` returns all kept memory. A run that keeps nothing returns it, too, except for
    the memory of its outputs.

    ``passing``: the memory of this run stays for the next runs of the same request, whose end calls ``empty``.
    """
    try:
        return list(session.run(names, inputs, _arena.settings(keep) if reuse and not passing else None))
    except Exception as error:  # the runtime's own classes share no other base
        raise EngineFailure(f"ONNX Runtime failed while computing: {error}") from error


def run_bound(
    session: Any,
    inputs: dict[str, Any],
    into: dict[str, Any],
    names: Sequence[str] = (),
    *,
    reuse: bool = False,
    passing: bool = False,
) -> list[Any]:
    """Compute outputs without copies: ``into`` has arrays that are written, by name; those of ``names`` are returned.

    Inputs and written arrays are contiguous NumPy arrays. The returned outputs are values of the runtime, which later
    runs take as inputs, too. ``reuse``, ``passing``: as for ``run``. Raises EngineFailure when the runtime fails.
    """
    try:
        binding = session.io_binding()
        for name, value in inputs.items():
            binding.bind_ortvalue_input(name, _value(value))
        for name, array in into.items():
            binding.bind_ortvalue_output(name, _value(array))
        for name in names:
            binding.bind_output(name)
        session.run_with_iobinding(binding, _arena.settings(0) if reuse and not passing else None)
        return list(binding.get_outputs())[len(into) :]
    except Exception as error:  # as in ``run``
        raise EngineFailure(f"ONNX Runtime failed while computing: {error}") from error


def _value(array: Any) -> Any:
    import numpy
    import onnxruntime

    return onnxruntime.OrtValue.ortvalue_from_numpy(array) if isinstance(array, numpy.ndarray) else array


class _Arena:
    """The one arena of this process, shared by all sessions that reuse memory. It grows by exactly the requested sizes.

    A run that shrinks the arena leaves the regions that hold its outputs. The next run of any session, or ``empty``,
    returns these regions.
    """

    def __init__(self) -> None:
        self._opening = threading.Lock()
        self._emptier: Any = None
        self.kept = 0

    def serve(self, settings: Any) -> None:
        """Make sessions of these ``SessionOptions`` allocate from the arena."""
        import onnxruntime

        with self._opening:
            if self._emptier is None:
                kind, memory = onnxruntime.OrtAllocatorType.ORT_ARENA_ALLOCATOR, onnxruntime.OrtMemType.DEFAULT
                as_requested = onnxruntime.OrtArenaCfg({"max_mem": 0, "arena_extend_strategy": 1})
                onnxruntime.create_and_register_allocator(
                    onnxruntime.OrtMemoryInfo("Cpu", kind, 0, memory), as_requested
                )
                own = options(threads=1)
                _inside(own)
                self._emptier = onnxruntime.InferenceSession(NOTHING, own, providers=list(providers("cpu")))
        _inside(settings)

    def settings(self, keep: int) -> Any:
        """``RunOptions`` of a run that keeps ``keep`` bytes. A larger run could not use the regions of smaller runs."""
        if keep > self.kept:
            self.empty()
        self.kept = max(keep, self.kept) if keep else 0
        return None if keep else _returning()

    def empty(self) -> None:
        """Return all memory that no run uses now. A run of an empty graph, whose output is empty, shrinks the arena."""
        self.kept = 0
        if self._emptier is not None:
            import numpy

            run(self._emptier, None, {"a": numpy.empty(0, numpy.float32)}, reuse=True)


NOTHING = (
    b"\x08\n:'\x12\x01gZ\x10\n\x01a\x12\x0b\n\t\x08\x01\x12\x05\n\x03\x12\x01nb\x10\n\x01a\x12\x0b\n\t\x08\x01"
    b"\x12\x05\n\x03\x12\x01nB\x04\n\x00\x10\x14"
)
"""A serialised ONNX graph whose output is its input ``a``, float32 [n]."""
_arena = _Arena()


def _inside(settings: Any) -> None:
    settings.enable_cpu_mem_arena = True
    settings.add_session_config_entry("session.use_env_allocators", "1")


@functools.cache
def _returning() -> Any:
    import onnxruntime

    settings = onnxruntime.RunOptions()
    settings.add_run_config_entry("memory.enable_memory_arena_shrinkage", "cpu:0")
    return settings


def kept() -> int:
    """Bytes, about, that stay in the arena for later runs."""
    return _arena.kept


def empty() -> None:
    """Return the memory of the arena that no run uses now."""
    _arena.empty()


def release() -> None:
    """Return the memory that runs and deleted sessions leave behind. Call after the last reference is gone."""
    gc.collect()
    _arena.empty()
    heap.trim()
