"""Reading model files into the page cache while the request that needs them is still arriving.

The page cache belongs to the system: no account counts it, and the system drops it when memory is needed.
"""

from __future__ import annotations

import logging
import os
import struct
import sys
import threading
from collections.abc import Callable, Iterable
from pathlib import Path

log = logging.getLogger("edgeserve.prefetch")

CHUNK = 128 << 10
"""Bytes of one call: the kernel fetches no more at once than the device's readahead, 128 KB by default."""
F_RDADVISE = 44
"""macOS <sys/fcntl.h>; takes a struct radvisory."""

Advise = Callable[[int, int, int], None]
"""Asks the system for ``length`` bytes at ``offset`` of an open file, and returns before they are read."""


def advise_linux(file: int, offset: int, length: int) -> None:
    os.posix_fadvise(file, offset, length, os.POSIX_FADV_WILLNEED)


def advise_macos(file: int, offset: int, length: int) -> None:
    import fcntl

    fcntl.fcntl(file, F_RDADVISE, struct.pack("@qi4x", offset, length))


class Prefetch:
    """Prefetches the files of one engine. ``wanted``: a request still waits for them. ``room``: bytes they may take.

    Prefetch calls all three on a thread of its own; they may raise OSError only.
    """

    def __init__(
        self,
        files: Callable[[], Iterable[Path]],
        wanted: Callable[[], bool],
        room: Callable[[], int],
        advise: Advise = advise_macos if sys.platform == "darwin" else advise_linux,
    ) -> None:
        self._files = files
        self._wanted = wanted
        self._room = room
        self._advise = advise
        self._lock = threading.Lock()
        self._stopping = False
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin, unless the prefetch is running already or no request waits for it. Returns at once."""
        with self._lock:
            running = self._thread is not None and self._thread.is_alive()
            if running or self._stopping or not self._wanted():
                return
            thread = threading.Thread(target=self._run, name="edgeserve-prefetch", daemon=True)
            try:
                thread.start()
            except RuntimeError as error:  # The system has no more threads. The engine reads its files itself.
                log.debug("model files cannot be fetched ahead: %s", error)
            else:
                self._thread = thread

    def stop(self) -> None:
        """End the prefetch for good. Blocks until the running call is over."""
        with self._lock:
            self._stopping = True
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            files = [path for path in self._files() if path.is_file()]
            size, room = sum(path.stat().st_size for path in files), self._room()
            if size > room:
                log.debug("%d MB of model files are not fetched ahead: %d MB are free", size >> 20, room >> 20)
                return
            for path in files:
                self._fetch(path)
        except OSError as error:  # The engine reports a broken file when it opens it.
            log.debug("model files cannot be fetched ahead: %s", error)

    def _fetch(self, path: Path) -> None:
        with path.open("rb") as file:
            size = os.fstat(file.fileno()).st_size
            for offset in range(0, size, CHUNK):
                if self._stopping or not self._wanted():
                    return
                self._advise(file.fileno(), offset, min(CHUNK, size - offset))
