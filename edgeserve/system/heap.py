"""The C heap of this process: settings of its allocator, return of its free pages, and how much of it is free.

A C library without the call that a function needs makes that function do nothing.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import sys
from collections.abc import Iterator

from edgeserve.dataclass import dataclass
from edgeserve.system import libc

M_TRIM_THRESHOLD, TRIM_THRESHOLD_BYTES = -1, 8 << 20
M_MMAP_THRESHOLD, MMAP_THRESHOLD_BYTES = -3, 256 << 10
M_ARENA_MAX, ARENAS = -8, 1


@dataclass(frozen=True, slots=True)
class HeapUsage:
    """Bytes: ``allocated`` to callers, ``reserved`` from the system."""

    allocated: int
    reserved: int


class _Mallinfo2(ctypes.Structure):
    """glibc 2.33 and later; sums over all arenas."""

    _fields_ = (
        ("arena", ctypes.c_size_t),
        ("ordblks", ctypes.c_size_t),
        ("smblks", ctypes.c_size_t),
        ("hblks", ctypes.c_size_t),
        ("hblkhd", ctypes.c_size_t),
        ("usmblks", ctypes.c_size_t),
        ("fsmblks", ctypes.c_size_t),
        ("uordblks", ctypes.c_size_t),
        ("fordblks", ctypes.c_size_t),
        ("keepcost", ctypes.c_size_t),
    )


def tune() -> bool:
    """Set glibc's allocator up for a server of large models. Call it before engines open.

    - Blocks from 256 KB up are mapped one by one, so that freeing one returns its memory at once.
    - Up to 8 MB of free pages stay at the end of the heap for the next request, until the next ``trim``.
    - All threads share one arena.

    Returns False where the C library has no mallopt(3). Measurements: docs/decisions/0003-allocator.md.
    """
    mallopt = getattr(libc.library(), "mallopt", None)
    if mallopt is None:
        return False
    settings = {
        M_TRIM_THRESHOLD: TRIM_THRESHOLD_BYTES,
        # A fixed threshold: by default glibc raises it with each freed block, and later blocks stay on the heap.
        M_MMAP_THRESHOLD: MMAP_THRESHOLD_BYTES,
        M_ARENA_MAX: ARENAS,
    }
    return [mallopt(name, size) for name, size in settings.items()] == [1] * len(settings)


def trim() -> None:
    """Return the heap's free pages to the system; a few milliseconds."""
    # CPython's cache of attribute look-ups holds up to 4,096 names, each keeping a page; the first call: since 3.13.
    getattr(sys, "_clear_internal_caches", getattr(sys, "_clear_type_cache", lambda: None))()
    c = libc.library()
    if sys.platform == "darwin":
        c.malloc_zone_pressure_relief(None, ctypes.c_size_t(0))
    elif hasattr(c, "malloc_trim"):
        c.malloc_trim(ctypes.c_size_t(0))


def collect() -> None:
    """Collect Python's garbage, then ``trim``. No other Python code runs during the collection."""
    gc.collect()
    trim()


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Let no collection begin by itself: during imports, each looks at all modules and finds next to nothing.

    All objects are old afterwards, as if collections had looked at them: only a full collection looks again.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if collects:
            if not gc.get_freeze_count():  # else all that is exempt would lose this, in a fork too
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def exempt() -> None:
    """Leave the Python objects that exist out of later collections, which stop all threads: 18 of 37 ms.

    Call it before an engine opens, since the memory of objects that refer to each other would never return.
    """
    gc.collect()
    gc.freeze()


def usage() -> HeapUsage | None:
    """None where the C library keeps no such figures."""
    mallinfo2 = getattr(libc.library(), "mallinfo2", None)
    if mallinfo2 is None:
        return None
    mallinfo2.restype = _Mallinfo2
    figures = mallinfo2()
    return HeapUsage(allocated=figures.uordblks + figures.hblkhd, reserved=figures.arena + figures.hblkhd)
