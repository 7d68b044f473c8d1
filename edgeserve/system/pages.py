"""Pages of mapped files, for engines: count, drop and populate them; and the private bytes of this process.

Only Linux has these tools. Elsewhere the functions do nothing, and their results say so.
"""

from __future__ import annotations

import contextlib
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from edgeserve.system import cores, libc, process, smaps
from edgeserve.system.smaps import Mapping
from edgeserve.units import MB

PIECE = 16 * MB
"""Bytes that one thread populates at a time: a few milliseconds of work."""
MOST_THREADS = 8
"""Threads that populate, at most. The speed of memory bounds them, not their number."""


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
    """Make the files' pages resident at once instead of by one page fault after the other. Blocks."""
    begin_populating(*paths)()


def begin_populating(*paths: Path) -> Callable[[], int]:
    """Begin to make the files' pages resident, on a thread for each core. Returns a function that waits for the end.

    That function returns the bytes that are resident now. A range that is mapped twice counts once, and pages that
    the kernel was only advised of do not count. The mapping must stay until then.
    """
    ranges = list(_mappings(smaps.MAPS, paths))
    distinct = sum(size for *_, size in {(one.path, one.offset, one.size) for one in ranges})
    pieces = iter([piece for one in ranges for piece in _pieces(one)])
    lock, resident = threading.Lock(), [0]

    def populate() -> None:
        while True:
            with lock:
                piece = next(pieces, None)
            if piece is None:
                return
            if not libc.advise(*piece, libc.POPULATE_READ):
                libc.advise(*piece, libc.WILLNEED)
                continue
            with lock:
                resident[0] += piece[1]

    wanted = min(MOST_THREADS, cores.usable(), sum(-(-one.size // PIECE) for one in ranges))
    threads = [threading.Thread(target=populate, name="edgeserve-pages", daemon=True) for _ in range(wanted)]
    started = []
    with contextlib.suppress(RuntimeError):  # the system has no more threads: the others, or the caller, do the work
        for one in threads:
            one.start()
            started.append(one)

    def finish() -> int:
        populate()
        for one in started:
            one.join()
        return min(resident[0], distinct)

    return finish


def _pieces(one: Mapping) -> Iterator[tuple[int, int]]:
    """Start and size of each piece of a range."""
    for at in range(0, one.size, PIECE):
        yield one.start + at, min(PIECE, one.size - at)


def private_bytes() -> int:
    """Anonymous memory of this process, exact."""
    return process.read().anon


def private_bytes_now() -> int:
    """Anonymous memory of this process by the kernel's own counters, without a walk of its pages.

    Some hundred KB off. Pages that it shares with its parent since a fork count in full, so only growth says much.
    """
    return process.read_unique().anon if sys.platform == "darwin" else process.read_counters().anon


def _mappings(listing: Path, paths: tuple[Path, ...]) -> Iterator[Mapping]:
    names = {str(path.resolve()) for path in paths}
    return smaps.read(listing, names.__contains__)
