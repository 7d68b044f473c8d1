"""A line to the program that started this process: its end ends this process, too."""

from __future__ import annotations

import os
import signal
import threading

CHUNK = 4096


def end_with(descriptor: int) -> threading.Thread:
    """Send SIGTERM to this process when nobody holds the other end of a pipe or a socket any more.

    Bytes that come are ignored. The thread that waits for the end is returned.
    """
    thread = threading.Thread(target=_wait, args=(descriptor,), name="lifeline", daemon=True)
    thread.start()
    return thread


def _wait(descriptor: int) -> None:
    try:
        while os.read(descriptor, CHUNK):
            pass
    except OSError:
        pass  # the other end was reset
    os.kill(os.getpid(), signal.SIGTERM)
