"""The keywords of a schema that its grammar leaves out, since rules cannot express them."""

from __future__ import annotations

from typing import Any

from edgeserve.engines.grammar.rules import Unsayable
from edgeserve.engines.grammar.schema_keywords import as_json
from edgeserve.engines.grammar.schema_parts import assertions

MAX_LOOSENED = 32
"""Keywords of one schema that may be left out. The conversion starts again for each."""


class LeftOut:
    """``told``: each keyword with the place of the first."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self._values: dict[str, set[str]] = {}
        """Values by keyword, as JSON."""

    def add(self, error: Unsayable, place: str) -> bool:
        """Leave the keyword of the error out. False where it has none, or too many were left out."""
        value = as_json(error.value)
        values = self._values.setdefault(error.keyword, set())
        if not error.keyword or value in values or len(self.told) == MAX_LOOSENED:
            return False
        values.add(value)
        self.told.append(f"{error.keyword} at {place}" if place else error.keyword)
        return True

    def assertions(self, schema: dict[str, Any]) -> dict[str, Any]:
        """The assertions of a part without the keywords that are left out. ``oneOf`` becomes ``anyOf``."""
        kept = {key: value for key, value in schema.items() if not self._has(key, value)}
        if len(kept) < len(schema) and "oneOf" in schema and "oneOf" not in kept and "anyOf" not in kept:
            kept["anyOf"] = schema["oneOf"]
        return assertions(kept)

    def _has(self, key: str, value: Any) -> bool:
        return key in self._values and as_json(value) in self._values[key]
