"""Huge pages for memory that a library takes: asked for from beside, while the library fills the memory.

A page fault costs some 2.5 µs. So filling 1 GB takes 0.7 s in pages of 4 KB, and 0.15 s in pages of 2 MB. Where the
kernel gives huge pages on advice only, a library that does not advise gets small ones. Linux only; elsewhere nothing
happens.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

from edgeserve.system import libc, smaps
from edgeserve.units import MB

ENABLED = Path("/sys/kernel/mm/transparent_hugepage/enabled")
LEAST = 16 * MB
"""Bytes of a range that is worth the advice. Stacks of threads are smaller."""
LOOK_EVERY = 0.002
"""Seconds between two looks for new ranges."""

Range = tuple[int, int]
"""Start and end of addresses."""
Advise = Callable[[int, int, int], object]


@contextlib.contextmanager
def asked_for(enabled: Path = ENABLED, maps: Path = smaps.MAPS, advise: Advise = libc.advise) -> Iterator[None]:
    """While the block runs, advise huge pages for all large anonymous ranges that this process takes."""
    if not on_advice(enabled):
        yield
        return
    known, over = list(anonymous(maps.read_text(encoding="utf-8", errors="replace"))), threading.Event()

    def look() -> None:
        while not over.wait(LOOK_EVERY):
            now = list(anonymous(maps.read_text(encoding="utf-8", errors="replace")))
            for start, end in new_parts(now, known):
                if end - start >= LEAST:
                    advise(start, end - start, libc.HUGEPAGE)
                    known.append((start, end))

    thread = threading.Thread(target=look, name="edgeserve-huge", daemon=True)
    started = False
    with contextlib.suppress(RuntimeError):  # the system has no more threads: the pages stay small
        thread.start()
        started = True
    try:
        yield
    finally:
        over.set()
        if started:
            thread.join()


def on_advice(enabled: Path) -> bool:
    """Whether the kernel gives huge pages to ranges that are advised, and to no others."""
    try:
        return "[madvise]" in enabled.read_text(encoding="ascii")
    except OSError:  # a kernel or a system without them
        return False


def anonymous(listing: str) -> Iterator[Range]:
    """Writable ranges without a file, from the text of /proc/self/maps."""
    for line in listing.splitlines():
        parts = line.split(maxsplit=5)
        if len(parts) == 5 and parts[1] == "rw-p":
            start, end = (int(one, 16) for one in parts[0].split("-"))
            yield start, end


def new_parts(now: Iterable[Range], known: Iterable[Range]) -> Iterator[Range]:
    """The parts of ranges that no known range covers: the kernel joins a new range with its neighbours."""
    before = sorted(known)
    for start, end in now:
        for low, high in before:
            if high <= start or low >= end:
                continue
            if low > start:
                yield start, low
            start = max(start, high)
        if start < end:
            yield start, end
