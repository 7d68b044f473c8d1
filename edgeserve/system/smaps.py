"""Linux: the mapped files of this process, parsed from /proc/self/maps or /proc/self/smaps."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from edgeserve.dataclass import dataclass
from edgeserve.units import KB

MAPS, SMAPS = Path("/proc/self/maps"), Path("/proc/self/smaps")


@dataclass(frozen=True, slots=True)
class Mapping:
    """One mapped range of a file; sizes in bytes.

    ``offset``: place of the range in its file.

    ``permissions`` as the kernel writes them ("r-xp"). ``resident`` and ``anonymous`` are 0 in /proc/self/maps.
    ``anonymous``: pages that the process has written to, which no longer belong to the file.
    """

    start: int
    size: int
    permissions: str
    path: str
    resident: int = 0
    anonymous: int = 0
    offset: int = 0


def read(listing: Path, wanted: Callable[[str], bool]) -> Iterator[Mapping]:
    """Mappings of the files whose paths are ``wanted``; nothing on a system without ``listing``.

    Reading smaps makes the kernel walk all pages of the process: some milliseconds for each 100 MB.
    """
    text = listing.read_text(encoding="utf-8", errors="replace") if listing.exists() else ""
    return parse(text.splitlines(), wanted)


def parse(lines: Iterable[str], wanted: Callable[[str], bool]) -> Iterator[Mapping]:
    """Each mapping begins with a head line; in smaps rows of ``Name:  number kB`` follow."""
    found: Mapping | None = None
    for line in lines:
        name, _, rest = line.partition(" ")
        if not name.endswith(":"):
            if found:
                yield found
            found = _head(line, wanted)
        elif found and name == "Rss:":
            found = replace(found, resident=_size(rest))
        elif found and name == "Anonymous:":
            found = replace(found, anonymous=_size(rest))
    if found:
        yield found


def _head(line: str, wanted: Callable[[str], bool]) -> Mapping | None:
    parts = line.split(maxsplit=5)
    if len(parts) < 6 or not wanted(parts[5]):
        return None
    start, end = (int(part, 16) for part in parts[0].split("-"))
    return Mapping(start, end - start, parts[1], parts[5], offset=int(parts[2], 16))


def _size(text: str) -> int:
    return int(text.split()[0]) * KB
