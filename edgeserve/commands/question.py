"""Questions to the person at the terminal."""

from __future__ import annotations

import sys

from edgeserve.terminal import is_terminal


def asks() -> bool:
    """Whether a person can read a question and answer it."""
    return is_terminal(sys.stdin) and is_terminal(sys.stderr)


def ask(question: str) -> bool:
    """Ask for a yes; False without a terminal, and for any other answer."""
    return asks() and answer(f"{question} [y/N]").lower() in ("y", "yes", "j", "ja")


def answer(question: str) -> str:
    """The line that the person types, without blanks around it; empty at the end of the input."""
    print(question, end=" ", file=sys.stderr, flush=True)
    return sys.stdin.readline().strip()
