"""Fields that hold a JSON object, most often a JSON schema, which the engine gets as text."""

from __future__ import annotations

import json
from typing import Any

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.schema import Field

MAX_CHARS = 65_536
"""Characters of a schema's text."""
ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
"""Writes in pieces. ``json.dumps`` writes 130,000 numbers before another thread runs, which takes 0.2 s."""


class JsonObject(Field[str]):
    """The text of a JSON object; empty where the object is left out or has no member."""

    NOUN = "an object"

    def __init__(self, words: str, *, required: bool = False) -> None:
        super().__init__(f"{words}, of at most {MAX_CHARS:,} characters", "", required=required)

    def read(self, fields: Fields, limits: Limits) -> str:
        if fields.object(self.name) is None:
            raise fields.error(self.name, "is required")
        if not (schema := fields.raw(self.name)) and not self.required:
            return ""
        try:
            text = "".join(ENCODER.iterencode(schema))
        except ValueError:  # 1e999 was read as infinite
            raise fields.error(self.name, "holds a number beyond the range of a float") from None
        if len(text) > MAX_CHARS:
            raise fields.error(self.name, f"has {len(text)} characters; the limit of {self.NOUN} is {MAX_CHARS}")
        return text

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "object"}


class JsonSchema(JsonObject):
    """The text of a JSON schema; empty where the schema is left out or has no keyword."""

    NOUN = "a schema"
