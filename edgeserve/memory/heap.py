"""The C heap of this process: give its free pages back, and tell how much of it is free. glibc only; else nothing."""

from __future__ import annotations

import ctypes
import functools
import gc
from dataclasses import dataclass


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


@functools.cache
def _libc() -> ctypes.CDLL:
    libc = ctypes.CDLL(None)
    if hasattr(libc, "mallinfo2"):
        libc.mallinfo2.restype = _Mallinfo2
        libc.mallinfo2.argtypes = []
    return libc


def trim() -> None:
    """Collect garbage, then return the heap's free pages to the system; a few milliseconds."""
    gc.collect()
    if hasattr(_libc(), "malloc_trim"):
        _libc().malloc_trim(ctypes.c_size_t(0))


def usage() -> HeapUsage | None:
    """None where the C library does not tell."""
    if not hasattr(_libc(), "mallinfo2"):
        return None
    told = _libc().mallinfo2()
    return HeapUsage(allocated=told.uordblks + told.hblkhd, reserved=told.arena + told.hblkhd)
