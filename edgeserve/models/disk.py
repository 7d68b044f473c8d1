"""How files come to rest on the disk, so that a power cut leaves all of them or none."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from pathlib import Path

Sync = Callable[[Path], None]

NO_FOLDERS = (errno.EINVAL, errno.ENOTSUP)
"""Answers of file systems that cannot sync a folder (some network shares); they order renames themselves."""


def sync(path: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on the disk. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in NO_FOLDERS or not path.is_dir():
            raise
    finally:
        os.close(descriptor)


def write(path: Path, text: str, sync: Sync = sync) -> None:
    """A file of this text, which appears whole under its name or not at all. Raises OSError."""
    partial = path.with_name(f".{path.name}.new")
    partial.write_text(text, encoding="utf-8")
    sync(partial)
    partial.replace(path)
    sync(path.parent)
