"""Memory for the state of a sequence."""

from __future__ import annotations

import contextlib
import ctypes
import mmap
from typing import Any

from edgeserve.system import headroom


def prepare(size: int) -> Any | None:
    """``allocate`` with all pages there; None without memory for them. Any thread.

    A copy of 90 MB takes 5 ms then. With faults it takes 9 ms in huge pages and 36 ms in pages of 4 KB. Where the
    system makes huge pages first, it takes 70 ms.
    """
    try:
        memory = allocate(size)
    except (OSError, MemoryError):
        return None  # the copy finds and reports the same
    ctypes.memset(memory, 0, size)  # lets other threads have the interpreter
    return memory


def allocate(size: int) -> Any:
    """``size`` bytes in pages of their own, which return to the system with the last reference.

    Raises OSError or MemoryError where the system has no memory for them.
    """
    headroom.check(size)
    # In huge pages a state of 22 MB is saved in 5 ms instead of 14, measured.
    region = mmap.mmap(-1, max(1, size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    if hasattr(mmap, "MADV_HUGEPAGE"):
        with contextlib.suppress(OSError):  # a kernel without huge pages
            region.madvise(mmap.MADV_HUGEPAGE)
    return (ctypes.c_uint8 * size).from_buffer(region)
