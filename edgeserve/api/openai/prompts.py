"""The field of raw texts or tokens, as OpenAI's completions and embeddings take them."""

from __future__ import annotations

from typing import Any

from edgeserve.api.fields import Fields
from edgeserve.api.limits import Limits
from edgeserve.api.openai.ending import MAX_TOKEN
from edgeserve.api.schema import Bound, Field, limit_of

Texts = tuple[str | tuple[int, ...], ...]


class Prompts(Field[Texts]):
    """A string, a list of strings, a list of tokens, or a list of such lists: at most ``limit``, none empty."""

    def __init__(self, words: str, limit: Bound) -> None:
        super().__init__(words, (), required=True)
        self._limit = limit

    def read(self, fields: Fields, limits: Limits) -> Texts:
        given, name = fields.raw(self.name), self.name
        single = isinstance(given, str) or (isinstance(given, list) and bool(given) and is_token(given[0]))
        items = [given] if single else given
        if items is None or items == []:
            raise fields.error(name, "is required and must not be empty")
        if not isinstance(items, list):
            raise fields.error(name, "must be a string, a list of strings, a list of tokens or a list of such lists")
        if len(items) > (limit := limit_of(self._limit, limits)):
            raise fields.error(name, f"has {len(items)} entries; the limit is {limit}")
        return tuple(_prompt(fields, name if single else f"{name}[{at}]", item) for at, item in enumerate(items))

    def schema(self, limits: Limits) -> dict[str, Any]:
        text = {"type": "string", "minLength": 1}
        token = {"type": "integer", "minimum": 0, "maximum": MAX_TOKEN}
        tokens = {"type": "array", "items": token, "minItems": 1}
        several = {"type": "array", "items": {"oneOf": [text, tokens]}, "minItems": 1}
        return {"oneOf": [text, tokens, several | {"maxItems": limit_of(self._limit, limits)}]}


def _prompt(fields: Fields, name: str, item: Any) -> str | tuple[int, ...]:
    if item in ("", []):
        raise fields.error(name, "is required and must not be empty")
    if isinstance(item, str):
        return item
    if isinstance(item, list) and all(map(is_token, item)):
        return tuple(map(int, item))
    raise fields.error(name, f"must be a string or a list of tokens, whole numbers from 0 to {MAX_TOKEN}")


def is_token(item: Any) -> bool:
    """Whether a value of JSON is a token id."""
    """Whether a value of JSON is a token id."""
    if isinstance(item, float):
        return item.is_integer() and 0 <= item <= MAX_TOKEN  # JSON does not distinguish 1.0 from 1
    return isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= MAX_TOKEN
