"""The field ``keep_alive``, in Ollama's syntax: how long an engine keeps its memory after a request."""

from __future__ import annotations

from typing import Any

from edgeserve.api.fields import Fields, clipped, kind
from edgeserve.api.limits import Limits
from edgeserve.api.schema import Field
from edgeserve.duration import PATTERN, read_duration


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
        seconds = read_duration(value)
        if seconds is None:
            raise fields.error(
                self.name,
                "must be a number of seconds or a duration such as 90s, 5m or 1h (0: give the memory back at once, "
                f"negative: stay), not {_shown(value)}",
            )
        return seconds

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"oneOf": [{"type": "number"}, {"type": "string", "pattern": PATTERN}]}


def _shown(value: Any) -> str:
    return repr(clipped(value, 40)) if isinstance(value, str) else kind(value)
