"""A module that a fork server may preload: no fork succeeds there any more."""

from __future__ import annotations

import errno
import os


def fork() -> int:
    raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")


os.fork = fork
