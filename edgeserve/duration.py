"""Durations in Ollama's syntax: seconds as a number, or numbers with units, such as 90s, 5m, 1h30m."""

from __future__ import annotations

import math
import re
from typing import Any

LONGEST = 366 * 86400
"""Seconds. A longer time is taken for this one."""
UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,12})?"
DURATION = rf"([-+]?)((?:{NUMBER}(?:ms|s|m|h)){{1,4}}|{NUMBER})"


def read_duration(value: Any) -> float | None:
    """Seconds; infinite for a negative duration. None where the value is neither a number nor a duration."""
    seconds = _seconds(value)
    if seconds is None:
        return None
    return math.inf if seconds < 0 else float(min(seconds, LONGEST))


def _seconds(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value if value == value else None  # NaN; math.isnan takes no number beyond floats
    match = re.fullmatch(DURATION, value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    sign, amounts = match.groups()
    total = sum(float(number) * UNITS[unit] for number, unit in re.findall(rf"({NUMBER})([a-z]*)", amounts))
    return -total if sign == "-" else total
