"""The command ``edgeserve``, also as ``python -m edgeserve``."""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Mapping

from edgeserve.cli import main

ALLOCATOR = "PYTHONMALLOC"


def run() -> int:
    if sys.argv[1:2] == ["serve"]:
        use_system_allocator(os.environ)
    return main()


def use_system_allocator(environ: Mapping[str, str]) -> None:
    """Start this process again, under its own pid, with the C library's allocator for Python's small objects.

    Python's own keeps a megabyte for as long as one object in it lives, so the dictionaries of a closed phonemizer do
    not quite return: measured, 3 MB more with each cycle, against 0.5 (docs/decisions/0003-allocator.md). Whoever sets
    PYTHONMALLOC keeps what it says; elsewhere than on glibc, which can trim its heap, nothing happens.
    """
    if ALLOCATOR not in environ and hasattr(ctypes.CDLL(None), "malloc_trim"):
        command = [sys.executable, *sys.orig_argv[1:]]
        os.execve(sys.executable, command, {**environ, ALLOCATOR: "malloc"})  # noqa: S606 - our own command again


if __name__ == "__main__":
    sys.exit(run())
