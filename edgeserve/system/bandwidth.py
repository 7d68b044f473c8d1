"""The speed at which this machine reads memory, measured."""

from __future__ import annotations

import ctypes
import mmap
import threading
import time
from collections.abc import Callable

from edgeserve.system import libc
from edgeserve.units import MB

SIZE = 256 * MB
"""Bytes to read: several times the last cache of a small box, and of most servers."""
LEAST = 16 * MB
"""Bytes to read where no memory is free. They may lie in a cache, so the figure may be too high."""
ROUNDS = 40
"""Other programs slow a round down, and never make one faster."""

Scan = Callable[[int, int], object]
"""Reads ``size`` bytes at an address, without the lock of Python."""


def size_for(available: int) -> int:
    """Bytes to read on a machine with this much free memory: a small box has other work to do."""
    return min(SIZE, max(LEAST, available // 4))


def scan(address: int, size: int) -> None:
    """Look for a byte that is not there. memchr(3) reads as fast as a processor can, and writes nothing."""
    search = libc.library().memchr
    search.restype = ctypes.c_void_p
    search(ctypes.c_void_p(address), ctypes.c_int(0), ctypes.c_size_t(size))


def measure(
    threads: int,
    size: int = SIZE,
    rounds: int = ROUNDS,
    scan: Scan = scan,
    clock: Callable[[], float] = time.perf_counter,
) -> float:
    """Bytes a second that ``threads`` threads read together, in the best of so many rounds. Blocks for a second or two.

    ``size`` bytes are taken meanwhile.
    """
    with mmap.mmap(-1, size) as memory:
        first = ctypes.c_char.from_buffer(memory)
        try:
            address, part = ctypes.addressof(first), size // threads
            ctypes.memset(address, 1, size)  # untouched pages would all be one page of zeros
            return max(_round(address, part, threads, scan, clock) for _ in range(rounds))
        finally:
            del first  # the mapping cannot be closed while an object points into it


def _round(address: int, part: int, threads: int, scan: Scan, clock: Callable[[], float]) -> float:
    readers = [threading.Thread(target=scan, args=(address + number * part, part)) for number in range(threads)]
    begun = clock()
    for one in readers:
        one.start()
    for one in readers:
        one.join()
    return threads * part / max(clock() - begun, 1e-9)
