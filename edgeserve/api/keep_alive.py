"""The field ``keep_alive``, in Ollama's syntax: how long an engine keeps its memory after a request."""

from __future__ import annotations

import math
import re
from typing import Any

from edgeserve.api.fields import Fields, clipped, kind
from edgeserve.api.limits import Limits
from edgeserve.api.schema import Field

LONGEST = 366 * 86400
"""Seconds. A longer time is taken for this one."""
UNITS = {"": 1.0, "ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0}
NUMBER = r"[0-9]{1,12}(?:\.[0-9]{1,12})?"
DURATION = rf"([-+]?)((?:{NUMBER}(?:ms|s|m|h)){{1,4}}|{NUMBER})"


class KeepAlive(Field[float | None]):
    """Seconds; infinite for a negative value, None where it is left out."""

    def __init__(self) -> None:
        super().__init__(
            "seconds, or a duration such as 90s, 5m or 1h, until the engine gives its memory back; 0: at once, "
            "negative: not before the memory is needed; left out: as configured",
            None,
        )

    def read(self, fields: Fields, limits: Limits) -> float | None:
        value = fields.raw(self.name)
        seconds = _seconds(value)
        if seconds is None:
            raise fields.error(
                self.name,
                "must be a number of seconds or a duration such as 90s, 5m or 1h (0: give the memory back at once, "
                f"negative: stay), not {_shown(value)}",
            )
        return math.inf if seconds < 0 else float(min(seconds, LONGEST))

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"oneOf": [{"type": "number"}, {"type": "string", "pattern": rf"^\s*{DURATION}\s*$"}]}


def _seconds(value: Any) -> float | None:
    """None where the value is neither a number nor a duration."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return value if value == value else None  # NaN; math.isnan takes no number beyond floats
    match = re.fullmatch(DURATION, value.strip()) if isinstance(value, str) else None
    if match is None:
        return None
    sign, amounts = match.groups()
    total = sum(float(number) * UNITS[unit] for number, unit in re.findall(rf"({NUMBER})([a-z]*)", amounts))
    return -total if sign == "-" else total


def _shown(value: Any) -> str:
    return repr(clipped(value, 40)) if isinstance(value, str) else kind(value)
