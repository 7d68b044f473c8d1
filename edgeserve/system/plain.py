"""Plain files, which end. A pipe or device in the place of one would be read for ever."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def opened(path: Path) -> BinaryIO:
    """The file, to be read. Raises OSError, also where something else than a plain file has its name. Never waits."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "it is no plain file", str(path))
    return open(descriptor, "rb")


def read(path: Path) -> bytes:
    """The bytes of the file. Raises OSError as ``opened`` does."""
    with opened(path) as file:
        return file.read()
