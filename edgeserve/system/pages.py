"""Pages of mapped files, for engines: count, drop and populate them; and the private bytes of this process.

Only Linux has these tools. Elsewhere the functions do nothing, and their results say so.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from edgeserve.system import libc, process, smaps
from edgeserve.system.smaps import Mapping


def mappings(*paths: Path) -> Iterator[Mapping]:
    """All ranges that map these files, with their resident pages."""
    return _mappings(smaps.SMAPS, paths)


def resident_mapped(*paths: Path) -> int:
    """Bytes of the files' mappings that are resident now. A range that is mapped twice shares its pages, and counts
    once."""
    found: dict[tuple[str, int, int], int] = {}
    for one in mappings(*paths):
        place = one.path, one.offset, one.size
        found[place] = max(found.get(place, 0), one.resident)
    return sum(found.values())


def drop_mapped(*paths: Path) -> int:
    """Drop the files' resident pages; returns their bytes. The page cache keeps them, and page faults bring them back.

    A range that the process has written to is left alone: dropping it would lose the writes.
    """
    clean = (one for one in mappings(*paths) if not one.anonymous)
    return sum(one.resident for one in clean if libc.advise(one.start, one.size, libc.DONTNEED))


def populate_mapped(*paths: Path) -> None:
    """Make the files' pages resident at once instead of by one page fault after the other."""
    for one in _mappings(smaps.MAPS, paths):
        if not libc.advise(one.start, one.size, libc.POPULATE_READ):
            libc.advise(one.start, one.size, libc.WILLNEED)


def private_bytes() -> int:
    """Anonymous memory of this process, exact."""
    return process.read().anon


def _mappings(listing: Path, paths: tuple[Path, ...]) -> Iterator[Mapping]:
    names = {str(path.resolve()) for path in paths}
    return smaps.read(listing, names.__contains__)
