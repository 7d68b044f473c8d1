"""Fields of the request that this dialect alone has."""

from __future__ import annotations

from typing import Any

from edgeserve.api.calls import check_together
from edgeserve.api.fields import Fields, kind
from edgeserve.api.limits import Limits
from edgeserve.api.responses import items
from edgeserve.api.responses.items import Item, read_item
from edgeserve.api.schema import Field

MAX_PAIRS, MAX_KEY, MAX_VALUE = 16, 64, 512
"""Pairs of ``metadata``, and characters of their keys and values, as in OpenAI's own API."""


class Input(Field[tuple[Item, ...]]):
    """``input``: a text, which is one message of the user, or a list of items."""

    def __init__(self) -> None:
        super().__init__("a message of the user, or the items of the conversation", ())

    def read(self, fields: Fields, limits: Limits) -> tuple[Item, ...]:
        given = fields.raw(self.name)
        if isinstance(given, str):
            said = {"role": "user", "content": given}
            return (read_item(fields.inner(said, f"{fields.full(self.name)}."), limits),) if given.strip() else ()
        if not isinstance(given, list):
            raise fields.error(self.name, f"must be a string or a list of items, not {kind(given)}")
        objects = fields.objects(self.name) if given else []
        check_together([text for one in objects if isinstance(text := one.raw("arguments"), str)], self.name)
        return tuple(read_item(one, limits) for one in objects)

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {"oneOf": [{"type": "string"}, {"type": "array", "items": items.describe(limits)}]}


class Metadata(Field[dict[str, str]]):
    """``metadata``: texts that the response repeats."""

    def __init__(self) -> None:
        super().__init__("texts that the response repeats", {})

    def read(self, fields: Fields, limits: Limits) -> dict[str, str]:
        given = fields.raw(self.name)
        if not isinstance(given, dict) or not all(isinstance(one, str) for one in given.values()):
            raise fields.error(self.name, "must be an object of texts")
        if len(given) > MAX_PAIRS:
            raise fields.error(self.name, f"has {len(given)} entries; the limit is {MAX_PAIRS}")
        for name, value in given.items():
            if len(name) > MAX_KEY or len(value) > MAX_VALUE:
                text = f"has a key of {len(name)} characters with a value of {len(value)}"
                raise fields.error(self.name, f"{text}; the limits are {MAX_KEY} and {MAX_VALUE}")
        return given

    def schema(self, limits: Limits) -> dict[str, Any]:
        return {
            "type": "object",
            "maxProperties": MAX_PAIRS,
            "propertyNames": {"maxLength": MAX_KEY},
            "additionalProperties": {"type": "string", "maxLength": MAX_VALUE},
        }
