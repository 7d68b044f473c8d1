"""How long an engine keeps its memory after a request: the field ``keep_alive``, in Ollama's syntax."""

from __future__ import annotations

import math
import re
from typing import Any

from edgeserve.api.fields import Fields, clipped, kind

FIELD = "keep_alive"
SCHEMA: dict[str, Any] = {
    "description": "seconds, or a duration such as 90s, 5m or 1h, until the engine gives its memory back; 0: at once, "
    "negative: not before the memory is needed; left out: as configured",
    "oneOf": [{"type": "number"}, {"type": "string"}],
}

LONGEST = 366 * 86400
"""Seconds; more is taken for this."""
UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
NUMBER = r"\d{1,12}(?:\.\d{1,12})?"
DURATION = re.compile(rf"([-+]?)((?:{NUMBER}(?:ms|s|m|h)){{1,4}}|{NUMBER})", re.ASCII)


def read(fields: Fields) -> float | None:
    """Seconds; infinite for a negative value; None when it is not given. Raises InvalidRequest."""
    value = fields.raw(FIELD)
    if value is None:
        return None
    seconds = _seconds(value)
    if seconds is None:
        raise fields.error(
            FIELD,
            "must be a number of seconds or a duration such as 90s, 5m or 1h (0: give the memory back at once, "
            f"negative: stay), not {_shown(value)}",
        )
    return math.inf if seconds < 0 else float(min(seconds, LONGEST))


def _seconds(value: Any) -> float | None:
    """None for what is neither a number nor a duration."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value if value == value else None  # NaN; math.isnan takes no number beyond floats
    match = DURATION.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    sign, amounts = match.groups()
    total = sum(float(number) * UNITS[unit] for number, unit in re.findall(rf"({NUMBER})([a-z]*)", amounts))
    return -total if sign == "-" else total


def _shown(value: Any) -> str:
    return repr(clipped(value, 40)) if isinstance(value, str) else kind(value)
