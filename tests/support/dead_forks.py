"""A module that a fork server may preload: the fork server dies at its first fork."""

from __future__ import annotations

import os
import signal


def fork() -> int:
    os.kill(os.getpid(), signal.SIGKILL)
    raise AssertionError("killed")


os.fork = fork
