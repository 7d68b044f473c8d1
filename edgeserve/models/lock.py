"""The lock of one model: one process at a time pulls or removes it."""

from __future__ import annotations

import contextlib
import fcntl
from collections.abc import Callable, Iterator
from pathlib import Path

from edgeserve.errors import StoreError


def lock_file(root: Path, name: str) -> Path:
    return root / f".lock-{name}"


@contextlib.contextmanager
def locked(root: Path, name: str, on_wait: Callable[[], None] | None = None) -> Iterator[None]:
    """Hold the lock. ``on_wait`` is called before a wait for another process; without it the lock raises StoreError.

    Raises OSError.
    """
    root.mkdir(parents=True, exist_ok=True)
    with lock_file(root, name).open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if on_wait is None:
                raise StoreError(f"another process pulls or removes {name}; end that process first") from None
            on_wait()
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


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
