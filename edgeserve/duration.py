"""Durations in Ollama's syntax: seconds as a number, or numbers with units, such as 90s, 5m, 1h30m.

A form writes the number as text. So the text of any number is a duration, as the number itself is.
"""

from __future__ import annotations

import math
import re
from typing import Any

LONGEST = 366 * 86400
"""Seconds. A longer time is taken for this one."""
UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
SPACE = " \t\r\n"
NUMBER = r"[0-9]{1,400}(?:\.[0-9]{1,400})?"
DURATION = rf"([-+]?)((?:{NUMBER}(?:ms|s|m|h)){{1,4}}|{NUMBER}(?:[eE][-+]?[0-9]{{1,3}})?)"
PATTERN = rf"^[{SPACE}]*{DURATION}[{SPACE}]*$"
"""Texts that are durations, as JSON schema takes a pattern."""


def read_duration(value: Any) -> float | None:
    """Seconds; infinite for a negative duration. None where the value is neither a number nor a duration."""
    seconds = _seconds(value)
    if seconds is None:
        return None
    return math.inf if seconds < 0 else float(min(seconds, LONGEST))


def _seconds(value: Any) -> float | None:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value if value == value else None  # NaN; math.isnan takes no number beyond floats
    match = re.fullmatch(DURATION, value.strip(SPACE)) if isinstance(value, str) else None
    if match is None:
        return None
    sign, amounts = match.groups()
    if amounts[-1] in "0123456789":
        total = float(amounts)
    else:
        total = sum(float(number) * UNITS[unit] for number, unit in re.findall(rf"({NUMBER})([a-z]+)", amounts))
    return -total if sign == "-" else total
