"""JSON for strict readers: an accepted text is valid for every reader, and as UTF-8."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any

MAX_DEPTH = 64
"""Deepest nesting of objects and lists."""
MAX_DIGITS = 308
"""Most digits of a whole number. More digits exceed the range of a float, in which many readers keep numbers."""


def loads(text: str) -> Any:
    """The value of a text. Raises ValueError.

    Also for NaN, numbers beyond the range of a float, surrogates, and nesting beyond MAX_DEPTH.
    """
    value, end = raw_decode(text, len(text) - len(text.lstrip(BLANKS)))
    if text[end:].strip(BLANKS):
        raise ValueError(f"text after the value, at character {end + 1}")
    return value


def raw_decode(text: str, at: int) -> tuple[Any, int]:
    """The value that begins at ``at``, and its end. Raises ValueError."""
    try:
        value, end = DECODER.raw_decode(text, at)
        if depth(value) > MAX_DEPTH:
            raise ValueError(f"nested more than {MAX_DEPTH} levels deep")
        for one in _texts(value):
            one.encode()
    except RecursionError:
        raise ValueError(f"nested more than {MAX_DEPTH} levels deep") from None
    return value, end


def depth(value: Any) -> int:
    """Levels of objects and lists, counted up to MAX_DEPTH + 1."""
    level, nodes = 0, [value]
    while level <= MAX_DEPTH:
        nodes = [node for node in nodes if isinstance(node, dict | list)]
        if not nodes:
            break
        level += 1
        nodes = [child for node in nodes for child in (node.values() if isinstance(node, dict) else node)]
    return level


def _texts(value: Any) -> Iterator[str]:
    """All strings in a value, names of fields among them."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        yield from value
        for one in value.values():
            yield from _texts(one)
    elif isinstance(value, list):
        for one in value:
            yield from _texts(one)


def _constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _float(text: str) -> float:
    value = float(text)
    if not math.isfinite(value):
        raise ValueError(f"{text[:24]} is beyond the range of a float")
    return value


def _int(text: str) -> int:
    if len(text.lstrip("-")) > MAX_DIGITS:
        raise ValueError(f"{text[:24]}… is beyond the range of a float")
    return int(text)


BLANKS = " \t\n\r"
DECODER = json.JSONDecoder(parse_constant=_constant, parse_float=_float, parse_int=_int)
