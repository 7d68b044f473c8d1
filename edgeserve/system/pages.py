"""The system's memory tools for engines: mapped pages, the heap, and what of it is ours. No runtime here.

Figures: measured on Linux (docs/memory.md). Where the system lacks a tool the function does nothing and says so
in its result.
"""

from __future__ import annotations

import ctypes
import functools
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

MADV_WILLNEED, MADV_DONTNEED, MADV_POPULATE_READ = 3, 4, 22


@dataclass(frozen=True, slots=True)
class Mapping:
    """One range of this process's address space; sizes in bytes. ``private``: mapped for private writing."""

    start: int
    size: int
    private: bool
    resident: int
    anonymous: int


def mappings(*paths: Path) -> Iterator[Mapping]:
    """All ranges that map these files. Nothing where there is no ``/proc/self/smaps``.

    The kernel walks all pages of the process for it: some milliseconds for each 100 MB.
    """
    names = {str(path.resolve()) for path in paths}
    fields: dict[str, int] = {}
    head: list[str] | None = None
    for line in _lines(Path("/proc/self/smaps")):
        first, _, rest = line.partition(" ")
        if not first.endswith(":"):
            if head:
                yield _mapping(head, fields)
            head, fields = _head(line, names), {}
        elif head:
            fields[first[:-1]] = int(rest.split()[0]) * 1024 if first in ("Rss:", "Anonymous:") else 0
    if head:
        yield _mapping(head, fields)


def _lines(listing: Path) -> list[str]:
    return listing.read_text(encoding="utf-8", errors="replace").splitlines() if listing.exists() else []


def _head(line: str, names: set[str]) -> list[str] | None:
    parts = line.split(maxsplit=5)
    return parts if len(parts) == 6 and parts[5] in names else None


def _mapping(head: list[str], fields: dict[str, int]) -> Mapping:
    start, end = (int(part, 16) for part in head[0].split("-"))
    return Mapping(start, end - start, head[1].endswith("p"), fields.get("Rss", 0), fields.get("Anonymous", 0))


def resident_mapped(*paths: Path) -> int:
    """Bytes of the files' mappings that are resident now."""
    return sum(one.resident for one in mappings(*paths))


def drop_mapped(*paths: Path) -> int:
    """Let go of the files' resident pages; they stay in the page cache and come back by page faults.

    A private range with pages of its own (written to) is left alone: dropping would lose the writes. Returns bytes.
    """
    return sum(one.resident for one in mappings(*paths) if not one.anonymous and _advise(one, MADV_DONTNEED))


def populate_mapped(*paths: Path) -> None:
    """Bring the files' pages in at once instead of one fault after the other."""
    names = {str(path.resolve()) for path in paths}
    heads = (_head(line, names) for line in _lines(Path("/proc/self/maps")))
    for one in [_mapping(head, {}) for head in heads if head]:
        if not _advise(one, MADV_POPULATE_READ):  # Linux before 5.14
            _advise(one, MADV_WILLNEED)


def _advise(one: Mapping, advice: int) -> bool:
    madvise = _libc().madvise
    madvise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    return bool(madvise(one.start, one.size, advice) == 0)


def trim_heap() -> bool:
    """Give the heap's free pages back to the system; False where there is no way to."""
    # CPython's cache of attribute look-ups holds up to 4,096 names, each keeping a page; the first call: since 3.13.
    getattr(sys, "_clear_internal_caches", getattr(sys, "_clear_type_cache", lambda: None))()
    if sys.platform == "darwin":
        _libc().malloc_zone_pressure_relief(None, ctypes.c_size_t(0))
        return True
    trim = getattr(_libc(), "malloc_trim", None)
    if trim is None:
        return False
    trim(0)
    return True


def private_bytes() -> int:
    """Anonymous memory of this process: ``Pss_Anon``, elsewhere the unique set size."""
    rollup = Path("/proc/self/smaps_rollup")
    if not rollup.exists():
        import psutil

        return int(psutil.Process().memory_full_info().uss)
    for line in rollup.read_text(encoding="ascii").splitlines():
        if line.startswith("Pss_Anon:"):
            return int(line.split()[1]) * 1024
    return 0


@functools.cache
def _libc() -> Any:
    return ctypes.CDLL(None, use_errno=True)
