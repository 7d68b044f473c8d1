"""A module whose main ends its process with code 7."""

from __future__ import annotations

import sys


def main() -> None:
    sys.exit(7)
