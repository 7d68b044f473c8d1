"""Whether this machine runs on its battery: work that nobody waits for would empty it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from edgeserve.system import command

SUPPLIES = Path("/sys/class/power_supply")
"""A folder for each battery and mains supply of Linux."""
DISCHARGING = "Discharging"
OF_DEVICES = "Device"
"""Scope of batteries that belong to a mouse or a keyboard."""


def on_battery(
    supplies: Path = SUPPLIES,
    run: Callable[[Sequence[str]], str] = command.output,
    platform: str = sys.platform,
) -> bool:
    """False where the system does not say, such as on machines without a battery."""
    if platform == "darwin":
        return "'Battery Power'" in run(["pmset", "-g", "batt"])
    return any(
        _read(one / "status") == DISCHARGING and _read(one / "scope") != OF_DEVICES for one in supplies.glob("*")
    )


def _read(path: Path) -> str:
    """The line of a file; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
