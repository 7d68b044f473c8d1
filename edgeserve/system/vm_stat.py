"""macOS: page classes from the text of ``vm_stat``, and how much of them is safe to count on.

psutil's ``available`` counts inactive pages, many of which are anonymous and come free by swapping only.
"""

from __future__ import annotations

import re

from edgeserve.dataclass import dataclass
from edgeserve.system.readings import SystemPressure


@dataclass(frozen=True, slots=True)
class PageClasses:
    """Bytes of each class. Compressed pages are never counted as available."""

    free: int
    active: int
    inactive: int
    speculative: int
    wired: int
    purgeable: int
    file_backed: int
    anonymous: int
    compressor: int


NAMES = {
    "free": "Pages free",
    "active": "Pages active",
    "inactive": "Pages inactive",
    "speculative": "Pages speculative",
    "wired": "Pages wired down",
    "purgeable": "Pages purgeable",
    "file_backed": "File-backed pages",
    "anonymous": "Anonymous pages",
    "compressor": "Pages occupied by compressor",
}


def parse(text: str) -> PageClasses:
    """Raises ValueError when the text is not vm_stat's. A class that the text does not list counts 0."""
    size = re.search(r"page size of (\d+) bytes", text)
    if size is None:
        raise ValueError(f"not the output of vm_stat: {text[:80]!r}")
    rows = {
        name.strip().strip('"'): int(value) for name, value in re.findall(r"^(.+?):\s+(\d+)\.?$", text, re.MULTILINE)
    }
    return PageClasses(**{key: rows.get(name, 0) * int(size[1]) for key, name in NAMES.items()})


def safe_available(pages: PageClasses, pressure: SystemPressure) -> int:
    """Bytes that come free without swapping, by the system's pressure level.

    - NORMAL: free, purgeable and file-backed pages. Speculative pages are a part of the file-backed ones.
    - WARN: free, purgeable and speculative pages. The system already drops the other file-backed ones.
    - CRITICAL: free and speculative pages.
    """
    # file-backed + anonymous = active + inactive + speculative, to the page (xnu, vm_page_speculate). An older system
    # does not list its file-backed pages.
    files = max(pages.file_backed, pages.speculative)
    available = pages.free + (files if pressure < SystemPressure.WARN else pages.speculative)
    if pressure < SystemPressure.CRITICAL:
        available += pages.purgeable
    return available
