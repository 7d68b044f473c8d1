"""Turns of Python's interpreter, which one thread of a process has at a time."""

from __future__ import annotations

import sys

SECONDS = 0.0005
"""Python's switch interval instead of 5 ms: a step of a model hands the interpreter over several times."""


def shorten() -> None:
    """Let no thread of this process keep the interpreter for longer than ``SECONDS`` while others wait for it."""
    sys.setswitchinterval(SECONDS)
