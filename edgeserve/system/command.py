"""Short commands of the operating system, and the text that they print."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence

SECONDS = 5.0
"""Time that a command may take, unless its caller says otherwise."""

Run = Callable[[Sequence[str]], str]
"""Runs a command and returns the text that it printed. Raises OSError or subprocess.SubprocessError."""


def run(command: Sequence[str], seconds: float = SECONDS) -> str:
    """Raises OSError, or subprocess.SubprocessError when the command fails or takes longer than ``seconds``."""
    ended = subprocess.run(command, capture_output=True, text=True, timeout=seconds, check=True)  # noqa: S603
    return ended.stdout


def output(command: Sequence[str], seconds: float = SECONDS) -> str:
    """The text that a command prints, without blanks around it; "" when it is missing or fails."""
    try:
        return run(command, seconds).strip()
    except (OSError, subprocess.SubprocessError):
        return ""
