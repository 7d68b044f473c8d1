"""Typed reading of a JSON object; every mistake names its field."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Collection
from typing import Any

from starlette.requests import Request

from edgeserve.api.limits import MB, Limits
from edgeserve.errors import InvalidRequest, TooLarge

MAX_DEPTH = 64
MAX_VALUES = 1 << 17
"""Values in one JSON text: some 25 MB once read, whatever they are, and 20 ms of reading."""
MAX_DIGITS = 400
"""Of a whole number; the largest float has 309. Python reads n digits in n² steps."""
AT_ONCE = 64 << 10
"""Bytes that are read on the event loop; more are read beside it."""
JSON_HINT = (
    "send pictures as files of a form (docs/api.md, Pictures) and sound as a file, or raise max_json_mb in models.toml"
)
HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")


async def read_json(request: Request) -> Fields:
    """The body as an object. Raises InvalidRequest, and TooLarge beyond ``max_json_bytes``."""
    limits: Limits = request.app.state.limits
    return await read_large(await read_bytes(request, limits.max_json_bytes, JSON_HINT))


async def read_bytes(request: Request, limit: int, hint: str) -> bytes:
    """The body, of at most ``limit`` bytes. Raises TooLarge; ``hint`` says what to do."""
    declared = request.headers.get("content-length", "0")
    size = int(declared) if declared.isdecimal() else 0
    parts = []
    if size <= limit:
        size = 0
        async with contextlib.aclosing(request.stream()) as stream:
            async for part in stream:
                size += len(part)
                if size > limit:
                    break
                parts.append(part)
    if size > limit:
        raise TooLarge(
            f"the body has at least {size / MB:.1f} MB; the limit of this route is {limit / MB:.1f} MB: {hint}"
        )
    return b"".join(parts)


async def read_large(data: bytes, name: str = "the body") -> Fields:
    """``read_object``, beside the event loop where it takes long."""
    return await asyncio.to_thread(read_object, data, name) if len(data) > AT_ONCE else read_object(data, name)


def read_object(data: bytes, name: str = "the body") -> Fields:
    """Raises InvalidRequest, calling the data by this name."""
    _check_size(data, name)
    try:
        value = json.loads(data.decode("utf-8"), parse_constant=_no_constant, parse_int=_integer)
    except UnicodeDecodeError:
        raise InvalidRequest(f"{name} is not UTF-8 text") from None
    except RecursionError:
        raise InvalidRequest(f"{name} is nested more than {MAX_DEPTH} levels deep") from None
    except json.JSONDecodeError as error:
        raise InvalidRequest(
            f"{name} is not valid JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except ValueError as error:
        raise InvalidRequest(f"{name} holds a number that is too long: {error}") from None
    if not isinstance(value, dict):
        raise InvalidRequest(f"{name} must be a JSON object, not {_kind(value)}")
    if _depth(value) > MAX_DEPTH:
        raise InvalidRequest(f"{name} is nested more than {MAX_DEPTH} levels deep")
    if HALF_PAIR.search(data):
        _check_pairs(value, name)
    return Fields(value)


def _check_size(data: bytes, name: str) -> None:
    """Count values before any is made: each takes 16 to 230 bytes of memory, and may take two of the text."""
    if _marks(data) <= MAX_VALUES:
        return
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"")  # every quote that is left begins or ends a string
    if plain.count(b'"') > 4 * MAX_VALUES or _marks(b"".join(plain.split(b'"')[::2])) > MAX_VALUES:
        raise InvalidRequest(f"{name} holds more than {MAX_VALUES:,} values; send fewer at a time")


def _marks(data: bytes) -> int:
    """Commas and opening brackets: a JSON text has at most one value more."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"{len(text)} digits; the limit is {MAX_DIGITS}")
    return int(text)


def _check_pairs(value: Any, name: str) -> None:
    """JSON can write half of a surrogate pair, which no UTF-8 answer or tokenizer can hold."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half = error.object[error.start]
        raise InvalidRequest(f"{name} holds \\u{ord(half):04x} alone, which is half of a character") from None


def _no_constant(name: str) -> float:
    raise json.JSONDecodeError(f"{name} is not a JSON number", name, 0)


def _depth(value: Any) -> int:
    level, nodes = 0, [value]
    while nodes and level <= MAX_DEPTH:
        level += 1
        nodes = [
            child
            for node in nodes
            if isinstance(node, dict | list)
            for child in (node.values() if isinstance(node, dict) else node)
        ]
    return level


class Fields:
    """``path`` prefixes names in errors: "messages[0]."."""

    def __init__(self, values: dict[str, Any], path: str = "") -> None:
        self._values = values
        self._path = path

    def has(self, name: str) -> bool:
        return self._values.get(name) is not None

    def raw(self, name: str) -> Any:
        return self._values.get(name)

    def only(self, known: Collection[str]) -> None:
        """Raises InvalidRequest for a field that nobody reads: most likely a misspelled one."""
        for name in self._values:
            if name not in known:
                listed = ", ".join(sorted(known))
                raise self.error(name, f"is not a known field; known are: {listed}")

    def text(self, name: str, default: str | None = None, *, limit: int | None = None) -> str | None:
        value = self._values.get(name)
        if value is None:
            return default
        if not isinstance(value, str):
            raise self.error(name, f"must be a string, not {_kind(value)}")
        if limit is not None and len(value) > limit:
            raise self.error(name, f"has {len(value)} characters; the limit is {limit}")
        return value

    def required_text(self, name: str, *, limit: int | None = None) -> str:
        value = self.text(name, limit=limit)
        if value is None or not value.strip():
            raise self.error(name, "is required and must not be empty")
        return value

    def number(self, name: str, low: float, high: float) -> float | None:
        value = self._values.get(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(name, f"must be a number, not {_kind(value)}")
        if not low <= value <= high:
            raise self.error(name, f"must lie between {low:g} and {high:g}, not {_figure(value)}")
        return float(value)

    def integer(self, name: str, low: int, high: int) -> int | None:
        value = self.number(name, low, high)
        if value is not None and value != int(value):
            raise self.error(name, f"must be a whole number, not {value:g}")
        return None if value is None else int(self._values[name])

    def flag(self, name: str) -> bool:
        value = self._values.get(name)
        if value is None:
            return False
        if not isinstance(value, bool):
            raise self.error(name, f"must be true or false, not {_kind(value)}")
        return value

    def object(self, name: str) -> Fields | None:
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(name, f"must be an object, not {_kind(value)}")
        return Fields(value, f"{self._path}{name}.")

    def objects(self, name: str) -> list[Fields]:
        """A list of objects; at least one."""
        value = self._values.get(name)
        if not isinstance(value, list) or not value:
            raise self.error(name, "must be a list of at least one object")
        for index, item in enumerate(value):
            if not isinstance(item, dict):
                raise self.error(f"{name}[{index}]", f"must be an object, not {_kind(item)}")
        return [Fields(item, f"{self._path}{name}[{index}].") for index, item in enumerate(value)]

    def texts(self, name: str, limit: int) -> tuple[str, ...]:
        """A string, or a list of at most ``limit`` strings."""
        value = self._values.get(name)
        if value is None:
            return ()
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise self.error(name, f"must be a string or a list of strings, not {_kind(value)}")
        if len(items) > limit:
            raise self.error(name, f"has {len(items)} entries; the limit is {limit}")
        return tuple(items)

    def full(self, name: str) -> str:
        """The field's name from the top of the body: "messages[0].content"."""
        return f"{self._path}{name}"

    def error(self, name: str, text: str) -> InvalidRequest:
        field = self.full(name)
        return InvalidRequest(f"{field} {text}", param=field)


def _kind(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"the number {_figure(value)}"
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names[type(value)]


def _figure(value: float) -> str:
    """As many digits as are worth reading."""
    text = str(value)
    return text if len(text) <= 24 else f"{text[:21]}…"
