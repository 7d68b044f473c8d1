"""SIGHUP arrives when the server's terminal has gone, or when somebody sends the signal by hand."""

from __future__ import annotations

import os


def has_terminal() -> bool:
    """True when this process has a controlling terminal that still exists."""
    try:
        os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY))
    except OSError:
        return False
    return True
