"""The lock of one model: one process at a time pulls or removes it."""

from __future__ import annotations

import contextlib
import fcntl
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TextIO

from edgeserve.errors import StoreError

WAIT_SECONDS = 0.2
"""Time between two looks at a lock that another process holds: a wait in the system could not be given up."""


def lock_file(root: Path, name: str) -> Path:
    return root / f".lock-{name}"


@contextlib.contextmanager
def locked(root: Path, name: str, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock. ``on_wait`` is called again and again during a wait, and may end the wait by an error.

    Without ``on_wait`` a held lock raises StoreError. Raises OSError.
    """
    root.mkdir(parents=True, exist_ok=True)
    with lock_file(root, name).open("w") as lock:
        while not _taken(lock):
            if on_wait is None:
                raise StoreError(f"another pull or removal of {name} is under way; end it first, or wait for its end")
            on_wait()
            time.sleep(WAIT_SECONDS)
        yield


def _taken(lock: TextIO) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def busy(root: Path, name: str) -> bool:
    """Whether a process holds the lock now. Raises OSError."""
    try:
        with lock_file(root, name).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except FileNotFoundError:
        return False
    return False
