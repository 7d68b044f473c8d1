"""Writes that survive a power cut: all files of a write are on the disk, or none."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterator
from pathlib import Path

from edgeserve.errors import DiskFull, StoreError

Sync = Callable[[Path], None]

NO_FOLDERS = (errno.EINVAL, errno.ENOTSUP)
"""Errors of file systems that cannot sync a folder (some network shares); they order renames themselves."""
FULL = (errno.ENOSPC, errno.EDQUOT)


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
    """Write a file that appears whole under its name, or not at all. Raises OSError."""
    partial = path.with_name(f".{path.name}.new")
    partial.write_text(text, encoding="utf-8")
    sync(partial)
    partial.replace(path)
    sync(path.parent)


@contextlib.contextmanager
def failures(root: Path, name: str) -> Iterator[None]:
    """Translate each OSError about the model ``name`` in the folder ``root`` to DiskFull or StoreError."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL:
            raise DiskFull(
                f"{name}: the disk of {root} is full; remove a model with `edgeserve remove`, or set "
                "EDGESERVE_MODELS_DIR to another disk"
            ) from error
        raise StoreError(f"{name} cannot be read or written in {root}: {error}") from error
