"""The code of shared libraries: resident pages of files, let go when the server rests. Linux only; else nothing.

The runtimes bring 50 MB of code and tables that stay resident after their last use. The pages are clean: the next call
reads them from the page cache, some 10 ms for all of them.
"""

from __future__ import annotations

import ctypes
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MADV_DONTNEED = 4
SMAPS = Path("/proc/self/smaps")
_HEAD = re.compile(r"^([0-9a-f]+)-([0-9a-f]+) (\S{4}) \S+ \S+ \d+ +(/.*)$")
_LIBRARY = re.compile(r"\.so(\.[\d.]+)?$")


@dataclass(frozen=True, slots=True)
class Range:
    """Addresses of a library that nothing has written to; bytes."""

    start: int
    size: int
    resident: int


def clean_ranges(smaps: str) -> Iterator[Range]:
    """Of libraries, and resident. A range with pages of its own (relocated or written to) is never among them."""
    for block in re.split(r"\n(?=[0-9a-f]+-[0-9a-f]+ )", smaps):
        head = _HEAD.match(block.partition("\n")[0])
        if not head or "w" in head[3] or not _LIBRARY.search(head[4]):
            continue
        sizes = dict(re.findall(r"^(Rss|Anonymous):\s+(\d+) kB$", block, re.MULTILINE))
        start, end = int(head[1], 16), int(head[2], 16)
        if sizes.get("Anonymous") == "0" and sizes.get("Rss", "0") != "0":
            yield Range(start, end - start, int(sizes["Rss"]) * 1024)


def drop() -> int:
    """Let go of all of them; returns the bytes."""
    if not SMAPS.exists():
        return 0
    return sum(one.resident for one in clean_ranges(SMAPS.read_text(errors="replace")) if _advise(one))


def _advise(one: Range) -> bool:
    return bool(_madvise()(one.start, one.size, MADV_DONTNEED) == 0)


@functools.cache
def _madvise() -> ctypes._NamedFuncPointer:
    madvise = ctypes.CDLL(None).madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return madvise
