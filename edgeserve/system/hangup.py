"""SIGHUP: the terminal that the server was started from has gone, or somebody sent the signal by hand."""

from __future__ import annotations

import os


def has_terminal() -> bool:
    """Whether this process has a controlling terminal, and the terminal is still there."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
