"""The resident pages of shared libraries, dropped while the server is idle. Linux only; elsewhere nothing happens.

The runtimes bring 50 MB of code and tables that stay resident after their last use. The pages are clean: the next call
reads them from the page cache (docs/decisions/0004-code-pages-and-reporting.md).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from edgeserve.system import libc, smaps
from edgeserve.system.smaps import Mapping

LIBRARY = r"/.*\.so(\.[\d.]+)?$"


def clean_ranges(listing: Path = smaps.SMAPS) -> Iterator[Mapping]:
    """Resident ranges of libraries that nothing has written to and nothing can write to."""
    found = smaps.read(listing, lambda path: re.match(LIBRARY, path) is not None)
    return (one for one in found if one.resident and not one.anonymous and "w" not in one.permissions)


def drop_pages() -> int:
    """Drop all clean pages of libraries; returns their bytes."""
    return sum(one.resident for one in clean_ranges() if libc.advise(one.start, one.size, libc.DONTNEED))
