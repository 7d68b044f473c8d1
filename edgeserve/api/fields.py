"""Typed reading of a JSON object, a form or a query; every mistake names its field."""

from __future__ import annotations

import asyncio
import contextlib
import json
import re
from collections.abc import Collection, Iterable
from typing import Any

from starlette.requests import Request

from edgeserve.api.limits import Limits
from edgeserve.errors import InvalidRequest, TooLarge, UnsupportedMedia
from edgeserve.units import MB

MAX_DEPTH = 64
MAX_VALUES = 1 << 17
"""Values in one JSON text: some 25 MB once read, whatever they are, and 20 ms of reading."""
MAX_DIGITS = 400
"""Of a whole number; the largest float has 309. Python reads n digits in n² steps."""
AT_ONCE = 64 << 10
"""Bytes that are read on the event loop; more are read beside it."""
JSON_HINT = (
    "send pictures as files of a form (docs/api/pictures.md) and sound as a file, or raise max_json_mb in models.toml"
)
JSON = re.compile(r"application/(?:[a-z0-9.+-]+\+)?json")
NUMBER = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?")
WHOLE = re.compile(r"[-+]?[0-9]+")
FLAGS = {"true": True, "1": True, "false": False, "0": False}
NAME_CHARS = 1024
"""Of a text that names a model, a voice, a format: megabytes of it held the event loop for a second."""
LONGEST_NUMBER = 64
"""Characters of a number that is written as text."""
SMALLEST = 2.0**-126
"""The smallest normal float32, which engines compute with: what is nearer to zero is zero to them, or worse."""
HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")
HALF = re.compile("[\ud800-\udfff]")


async def read_json(request: Request) -> Fields:
    """The body as an object. Raises InvalidRequest, UnsupportedMedia, and TooLarge beyond ``max_json_bytes``."""
    check_media(request)
    limits: Limits = request.app.state.limits
    return await read_large(await read_bytes(request, limits.max_json_bytes, JSON_HINT))


async def read_bytes(request: Request, limit: int, hint: str) -> bytes:
    """The body, of at most ``limit`` bytes. Raises TooLarge; ``hint`` says what to do."""
    declared = request.headers.get("content-length", "0")
    size = int(declared) if declared.isdecimal() else 0
    data = bytearray()  # a list of the parts would take twenty times as much where each holds two bytes
    if size <= limit:
        size = 0
        async with contextlib.aclosing(request.stream()) as stream:
            async for part in stream:
                size += len(part)
                if size > limit:
                    break
                data += part
    if size > limit:
        raise TooLarge(
            f"the body has at least {size / MB:.1f} MB; the limit of this route is {limit / MB:.1f} MB: {hint}"
        )
    return bytes(data)


async def read_large(data: bytes, name: str = "the body") -> Fields:
    """``read_object``, beside the event loop where it takes long."""
    return await asyncio.to_thread(read_object, data, name) if len(data) > AT_ONCE else read_object(data, name)


def check_media(request: Request) -> None:
    """A browser must say that it sends JSON, which a page of another site cannot without asking. Raises
    UnsupportedMedia."""
    given = request.headers.get("content-type", "")
    if JSON.fullmatch(given.partition(";")[0].strip().lower()):
        return
    if any(name == "origin" or name.startswith("sec-fetch-") for name in request.headers):
        raise UnsupportedMedia(f"the body must be sent with Content-Type: application/json, not {given[:200]!r}")


def read_object(data: bytes, name: str = "the body") -> Fields:
    """Raises InvalidRequest, calling the data by this name."""
    check_size(data, name)
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
        raise InvalidRequest(f"{name} must be a JSON object, not {kind(value)}")
    if _depth(value) > MAX_DEPTH:
        raise InvalidRequest(f"{name} is nested more than {MAX_DEPTH} levels deep")
    if HALF_PAIR.search(data):
        _check_pairs(value, name)
    return Fields(value)


def check_size(data: bytes, name: str, param: str | None = None) -> None:
    """Count values before any is made: each takes 16 to 230 bytes of memory, and may take two of the text."""
    if _marks(data) <= MAX_VALUES:
        return
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"")  # every quote that is left begins or ends a string
    if plain.count(b'"') > 4 * MAX_VALUES or _marks(b"".join(plain.split(b'"')[::2])) > MAX_VALUES:
        raise InvalidRequest(f"{name} holds more than {MAX_VALUES:,} values; send fewer at a time", param=param)


def _marks(data: bytes) -> int:
    """Commas and opening brackets: a JSON text has at most one value more."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"{len(text)} digits; the limit is {MAX_DIGITS}")
    return int(text)


def _check_pairs(value: Any, name: str) -> None:
    """JSON can write half of a surrogate pair, which no UTF-8 answer or tokenizer can hold. Raises InvalidRequest."""
    try:
        json.dumps(value, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:
        half, field = error.object[error.start], _halved(value)
        text = f"{field or name} holds \\u{ord(half):04x} alone, which is half of a character"
        raise InvalidRequest(text, param=field or None) from None


def _halved(value: Any, field: str = "") -> str | None:
    """The first field that holds half of a pair, or a name that does; empty for the object itself; None: there is
    none."""
    parts: Iterable[tuple[str, Any]] = ()
    if isinstance(value, dict):
        if any(map(HALF.search, value)):
            return field
        parts = ((f"{field}.{key}" if field else key, one) for key, one in value.items())
    elif isinstance(value, list):
        parts = ((f"{field}[{index}]", one) for index, one in enumerate(value))
    elif isinstance(value, str) and HALF.search(value):
        return field
    found = (_halved(one, name) for name, one in parts)
    return next((one for one in found if one is not None), None)


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
    """``path`` prefixes names in errors: "messages[0].". ``written``: numbers and flags are text, as in forms."""

    def __init__(self, values: dict[str, Any], path: str = "", *, written: bool = False) -> None:
        self._values = values
        self._path = path
        self._written = written

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
            raise self.error(name, f"must be a string, not {kind(value)}")
        if limit is not None and len(value) > limit:
            raise self.error(name, f"has {len(value)} characters; the limit is {limit}")
        return value

    def required_text(self, name: str, *, limit: int | None = None) -> str:
        value = self.text(name, limit=limit)
        if value is None or not value.strip():
            raise self.error(name, "is required and must not be empty")
        return value

    def number(self, name: str, low: float, high: float) -> float | None:
        """Between the bounds, which are finite, and never nearer to zero than engines can tell from zero."""
        value = self._number(name, low, high)
        if value is None:
            return None
        return float(value) if abs(value) >= SMALLEST else 0.0

    def integer(self, name: str, low: int, high: int) -> int | None:
        value = self._number(name, low, high)
        if value is not None and value != int(value):
            raise self.error(name, f"must be a whole number, not {value:g}")
        return None if value is None else int(value)

    def _number(self, name: str, low: float, high: float) -> int | float | None:
        given = self._values.get(name)
        if given is None:
            return None
        value = read_number(given) if self._written and isinstance(given, str) else given
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise self.error(name, f"must be a number, not {self._told(given)}")
        if not low <= value <= high:
            raise self.error(name, f"must lie between {low:g} and {high:g}, not {_figure(value)}")
        return value

    def flag(self, name: str) -> bool:
        value = self._values.get(name)
        if value is None:
            return False
        if self._written:
            value = FLAGS.get(value, value) if isinstance(value, str) else value
        if not isinstance(value, bool):
            raise self.error(name, f"must be true or false, not {self._told(value)}")
        return value

    def _told(self, value: Any) -> str:
        return repr(clipped(value, 40)) if self._written and isinstance(value, str) else kind(value)

    def object(self, name: str) -> Fields | None:
        value = self._values.get(name)
        if value is None:
            return None
        if not isinstance(value, dict):
            raise self.error(name, f"must be an object, not {kind(value)}")
        return Fields(value, f"{self._path}{name}.")

    def objects(self, name: str) -> list[Fields]:
        """A list of objects; at least one."""
        value = self._values.get(name)
        if not isinstance(value, list) or not value:
            raise self.error(name, "must be a list of at least one object")
        for index, item in enumerate(value):
            if not isinstance(item, dict):
                raise self.error(f"{name}[{index}]", f"must be an object, not {kind(item)}")
        return [Fields(item, f"{self._path}{name}[{index}].") for index, item in enumerate(value)]

    def texts(self, name: str, limit: int) -> tuple[str, ...]:
        """A string, or a list of at most ``limit`` strings."""
        value = self._values.get(name)
        if value is None:
            return ()
        items = [value] if isinstance(value, str) else value
        if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
            raise self.error(name, f"must be a string or a list of strings, not {kind(value)}")
        if len(items) > limit:
            raise self.error(name, f"has {len(items)} entries; the limit is {limit}")
        return tuple(items)

    def full(self, name: str) -> str:
        """The field's name from the top of the body: "messages[0].content"."""
        return f"{self._path}{name}"

    def error(self, name: str, text: str) -> InvalidRequest:
        field = self.full(name)
        return InvalidRequest(f"{field} {text}", param=field)


def read_number(text: str) -> int | float | None:
    """A number written in ASCII, as JSON would write it or nearly; None for anything else."""
    text = text.strip(" \t\r\n")
    if len(text) > LONGEST_NUMBER or not NUMBER.fullmatch(text):
        return None
    return int(text) if WHOLE.fullmatch(text) else float(text)


def kind(value: Any) -> str:
    """What was found in place of what was expected."""
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"the number {_figure(value)}"
    names = {dict: "an object", list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names[type(value)]


def _figure(value: float) -> str:
    """As many digits as are worth reading; Python refuses to write more than 4,300."""
    if isinstance(value, int) and value.bit_length() > 4096:
        return f"{'-' * (value < 0)}1e{value.bit_length() * 3 // 10}"
    return clipped(str(value), 24)


def clipped(text: str, limit: int) -> str:
    return text if len(text) <= limit else f"{text[: limit - 3]}…"
