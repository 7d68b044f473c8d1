"""Raw texts, or their tokens, as OpenAI's completions and embeddings take them."""

from __future__ import annotations

from typing import Any

from edgeserve.api.fields import Fields

MAX_TOKEN = 2**31 - 1


def read_prompts(fields: Fields, name: str, limit: int) -> tuple[str | tuple[int, ...], ...]:
    """A string, a list of strings, a list of tokens, or a list of such lists; at most ``limit``, none empty."""
    given = fields.raw(name)
    single = isinstance(given, str) or (isinstance(given, list) and bool(given) and _is_token(given[0]))
    items = [given] if single else given
    if items is None or items == []:
        raise fields.error(name, "is required and must not be empty")
    if not isinstance(items, list):
        raise fields.error(name, "must be a string, a list of strings, a list of tokens or a list of such lists")
    if len(items) > limit:
        raise fields.error(name, f"has {len(items)} entries; the limit is {limit}")
    return tuple(_prompt(fields, name if single else f"{name}[{at}]", item) for at, item in enumerate(items))


def _prompt(fields: Fields, name: str, item: Any) -> str | tuple[int, ...]:
    if item in ("", []):
        raise fields.error(name, "is required and must not be empty")
    if isinstance(item, str):
        return item
    if isinstance(item, list) and all(map(_is_token, item)):
        return tuple(item)
    raise fields.error(name, f"must be a string or a list of tokens, whole numbers from 0 to {MAX_TOKEN}")


def _is_token(item: Any) -> bool:
    return isinstance(item, int) and not isinstance(item, bool) and 0 <= item <= MAX_TOKEN
