"""The C library of this process, and the advice that the kernel takes about pages."""

from __future__ import annotations

import ctypes
import functools
from typing import Any

WILLNEED, DONTNEED, POPULATE_READ = 3, 4, 22
"""Advice of madvise(2). POPULATE_READ exists since Linux 5.14."""


@functools.cache
def library() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def advise(start: int, size: int, advice: int) -> bool:
    """Call madvise on a range of addresses; ``size`` in bytes. False when the kernel refuses the advice."""
    return bool(library().madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), advice) == 0)
