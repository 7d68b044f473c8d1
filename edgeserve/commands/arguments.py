"""Parsers of arguments, and what several commands read."""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable
from typing import Any, NoReturn

DEVICES = ("auto", "cpu", "cuda", "metal")
AddCommand = Callable[[Any, str, str, str], Any]
"""Adds a subcommand: the commands, its name, its function as an import string, its description. Returns a parser."""


class Parser(argparse.ArgumentParser):
    """A parser that reports wrong usage in one line, as all other errors."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=28), **settings)

    def error(self, message: str) -> NoReturn:
        self.exit(2, f"[ERROR] {message}; see {self.prog} --help\n")


def positive(text: str) -> int:
    """A whole number of at least 1, as a type of argparse."""
    try:
        value = int(text)
    except ValueError:
        value = 0
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be a whole number of at least 1, not {text}")
    return value


def seconds(text: str) -> float:
    """Seconds from 0.1 to 3600, as a type of argparse."""
    try:
        value = float(text)
    except ValueError:
        value = math.nan  # lies in no range
    if not 0.1 <= value <= 3600:
        raise argparse.ArgumentTypeError(f"must be from 0.1 to 3600 seconds, not {text}")
    return value
