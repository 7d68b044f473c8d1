"""Fields of Ollama's dialect that no other dialect has: ``format``, ``think``, and lists of base64."""

from __future__ import annotations

from typing import Any

from edgeserve.api.fields import Fields, clipped, kind
from edgeserve.api.json_schema import JsonSchema
from edgeserve.api.limits import Limits
from edgeserve.api.schema import Field
from edgeserve.errors import InvalidRequest

JSON = "json"
LEVELS = ("high", "medium", "low", "max")
PIECE = 1 << 16
"""Characters that are worked on in one call, during which no other thread runs."""

Thinking = bool | str | None


class FormatField(JsonSchema):
    """``format``: empty for free text, "json" for any object, else the text of a JSON schema."""

    def __init__(self) -> None:
        super().__init__('the form of the answer: "json", or a JSON schema')

    def read(self, fields: Fields, limits: Limits) -> str:
        given = fields.raw(self.name)
        if isinstance(given, str) and given in ("", JSON):
            return given
        if not isinstance(given, dict):
            raise fields.error(self.name, f'must be "json" or a JSON schema, not {_shown(given)}')
        return super().read(fields, limits)

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"oneOf": [{"type": "string", "enum": ["", JSON]}, {"type": "object"}]}


class ThinkField(Field[Thinking]):
    """``think``: whether the model is to reason before its answer, or how much."""

    def __init__(self) -> None:
        super().__init__("whether the model reasons before its answer; left out: as the model does", None)

    def read(self, fields: Fields, limits: Limits) -> Thinking:
        given = fields.raw(self.name)
        if isinstance(given, bool) or (isinstance(given, str) and given in LEVELS):
            return given
        field, listed = fields.full(self.name), ", ".join(f'"{one}"' for one in LEVELS)
        text = f"invalid {self.name} value: {_shown(given)} (must be {listed}, true, or false)"
        raise InvalidRequest(text, param=field)

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"oneOf": [{"type": "boolean"}, {"type": "string", "enum": list(LEVELS)}]}


class Images(Field[tuple[str, ...]]):
    """Pictures as base64 without a type: the bytes show the type. They are read as data URLs."""

    def __init__(self) -> None:
        super().__init__("pictures as base64, without a media type", ())

    def read(self, fields: Fields, limits: Limits) -> tuple[str, ...]:
        given = fields.raw(self.name)
        if not isinstance(given, list) or not all(isinstance(one, str) for one in given):
            raise fields.error(self.name, "must be a list of pictures as base64")
        return tuple(map(as_url, given))

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "array", "items": {"type": "string"}}


class Refused(Field[None]):
    """A text that shapes Ollama's answer and has no meaning here. It must be empty."""

    def __init__(self, why: str) -> None:
        super().__init__(f"accepted as long as it is empty: {why}", None)
        self._why = why

    def read(self, fields: Fields, limits: Limits) -> None:
        if fields.text(self.name):
            raise fields.error(self.name, f"is not supported by this server: {self._why}; leave it out")

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"type": "string", "maxLength": 0}


def as_url(image: str) -> str:
    """The picture as a data URL. Some clients send one, and encoders break base64 into lines."""
    if image.startswith("data:"):
        return image
    pieces = (image[at : at + PIECE].replace("\n", "").replace("\r", "") for at in range(0, len(image), PIECE))
    return f"data:;base64,{''.join(pieces)}"


def _shown(value: Any) -> str:
    return f'"{clipped(value, 40)}"' if isinstance(value, str) else kind(value)
