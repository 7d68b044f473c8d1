"""The C library of this process: advice to the kernel about pages, and calls that Python has no function for."""

from __future__ import annotations

import ctypes
import functools
import os
from typing import Any

WILLNEED, DONTNEED, HUGEPAGE, POPULATE_READ = 3, 4, 14, 22
"""Advice of madvise(2). POPULATE_READ exists since Linux 5.14."""


@functools.cache
def library() -> Any:
    return ctypes.CDLL(None, use_errno=True)


def advise(start: int, size: int, advice: int) -> bool:
    """Call madvise on a range of addresses; ``size`` in bytes. False when the kernel refuses the advice."""
    return bool(library().madvise(ctypes.c_void_p(start), ctypes.c_size_t(size), advice) == 0)


def system_call(number: int, *arguments: int | bytes | None) -> int:
    """Call the kernel by number: integers in full width, bytes and None as addresses. Raises OSError."""
    call = library().syscall
    call.restype = ctypes.c_long
    return _checked(call(ctypes.c_long(number), *map(_argument, arguments)))


def process_control(option: int, *arguments: int | bytes | None) -> int:
    """prctl(2), with zeros for arguments left out. Raises OSError."""
    return _checked(library().prctl(option, *map(_argument, (*arguments, 0, 0, 0, 0)[:4])))


def _argument(value: int | bytes | None) -> ctypes.c_long | ctypes.c_char_p:
    # A plain int would be passed as 32 bits; the rest of the register is then undefined.
    return ctypes.c_long(value) if isinstance(value, int) else ctypes.c_char_p(value)


def _checked(result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, os.strerror(number))
    return result
