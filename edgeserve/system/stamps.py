"""Stamps of files: a file that was replaced or rewritten has another one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

Stamp = tuple[int, int, int, int] | None
"""Device, number, size and time of change in nanoseconds; None for a file that is not there."""


def stamps(paths: Iterable[Path]) -> dict[Path, Stamp]:
    """The stamp of each file. Reads no content."""
    return {path: _stamp(path) for path in paths}


def _stamp(path: Path) -> Stamp:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
