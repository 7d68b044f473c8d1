"""Stamps of files: a file that was replaced or rewritten has another one."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

Stamp = tuple[int, ...] | None
"""Device, number, size and time of change in nanoseconds; None for a file that is not there.

A file that the system does not let anybody look at has the number of the error alone.
"""


def stamps(paths: Iterable[Path]) -> dict[Path, Stamp]:
    """The stamp of each file. Reads no content."""
    return {path: _stamp(path) for path in paths}


def stamp_with_rights(path: Path) -> Stamp:
    """The stamp of a file that is another one, too, once its owner or its rights have changed."""
    return _stamp(path, rights=True)


def _stamp(path: Path, *, rights: bool = False) -> Stamp:
    try:
        found = path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        return (error.errno or 0,)
    stamp = found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns
    return (*stamp, found.st_mode, found.st_uid, found.st_gid) if rights else stamp
