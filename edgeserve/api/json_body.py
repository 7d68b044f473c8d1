"""Bodies of JSON: their size, their syntax, and the record that they hold."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Iterable
from typing import Any, TypeVar

from starlette.requests import Request

from edgeserve.api import notes
from edgeserve.api.fields import Fields, kind
from edgeserve.api.limits import PARSE, Limits, limits_of
from edgeserve.api.schema import Record
from edgeserve.errors import InvalidRequest, TooLarge, UnsupportedMedia
from edgeserve.residency.aside import Aside
from edgeserve.units import MB

MAX_DEPTH = 64
MAX_VALUES = 1 << 17
"""Values in one JSON text."""
MAX_OBJECTS = 1 << 14
"""Objects in one JSON text, such as messages, parts and calls. Each becomes a record of a dozen Python objects.

With 40,000 messages, each collection of Python's garbage stopped all threads for 0.2 s.
"""
MAX_DIGITS = 400
"""Characters of a number. The largest float has 309 digits; Python takes n² steps to read a whole number."""
SMALL = 8 << 10
"""Bytes of a body that the event loop reads itself. A thread reads a larger one."""
READS = Aside("the reading of bodies", threads=2)
"""Clients take turns: a body of a megabyte may take a second, and a client may send forty of them at once."""
VALUE_BYTES = 200
"""Bytes of a value as an object, beside its text. In messages of one word 250 were measured."""
JSON_HINT = (
    "send pictures as files of a form (docs/api/pictures.md) and sound as a file, or raise max_json_mb in models.toml"
)
MEDIA = re.compile(r"application/(?:[a-z0-9.+-]+\+)?json")
HALF_PAIR = re.compile(rb"\\u[dD][89a-fA-F]")
HALF = re.compile("[\ud800-\udfff]")

R = TypeVar("R", bound=Record)


async def read_json(request: Request, record: type[R]) -> R:
    """The body as this record. Raises InvalidRequest, UnsupportedMedia, and TooLarge beyond ``max_json_bytes``."""
    check_media(request)
    limits = limits_of(request)
    return await read_noted(request, await read_bytes(request, limits.max_json_bytes, JSON_HINT), record)


async def read_noted(request: Request, data: bytes, record: type[R]) -> R:
    """The record in a JSON text of this request, whose unknown fields are noted, also for an error.

    Raises InvalidRequest, and Busy where the bodies of the client, or of all, take too much memory. A misspelled name
    of a required field so stands beside the error that it is missing.
    """
    ignored: list[str] = []
    if len(data) > SMALL and (parse := request.scope.get(PARSE)):
        parse(VALUE_BYTES * min(MAX_VALUES, await READS.run(values, data)))
    try:
        return await read_record(data, record, limits_of(request), ignored)
    finally:
        notes.ignored(request, ignored)


async def read_bytes(request: Request, limit: int, hint: str) -> bytes:
    """The body, of at most ``limit`` bytes. Raises TooLarge; ``hint`` says what the client can do."""
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


async def read_record(data: bytes, record: type[R], limits: Limits, ignored: list[str] | None = None) -> R:
    """The record in a JSON text. Raises InvalidRequest. ``ignored`` gets the names of unknown fields."""

    def read() -> R:
        fields = read_object(data)
        if ignored is not None:
            fields.ignored = ignored
        return record(fields, limits)

    return read() if len(data) <= SMALL else await READS.run(read)


def check_media(request: Request) -> None:
    """Raises UnsupportedMedia where a browser does not declare its body as JSON.

    A page of another site cannot declare JSON without asking the server first.
    """
    given = request.headers.get("content-type", "")
    if MEDIA.fullmatch(given.partition(";")[0].strip().lower()):
        return
    if any(name == "origin" or name.startswith("sec-fetch-") for name in request.headers):
        raise UnsupportedMedia(f"the body must be sent with Content-Type: application/json, not {given[:200]!r}")


def read_object(data: bytes, name: str = "the body", most: int | None = None) -> Fields:
    """The object in a JSON text. Raises InvalidRequest, which calls the data by ``name``. ``most``: of check_size."""
    check_size(data, name, most=most)
    try:
        value = json.loads(
            data.decode("utf-8-sig"), parse_constant=_no_constant, parse_int=_integer, parse_float=_float
        )
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


def check_size(data: bytes, name: str, param: str | None = None, most: int | None = None) -> None:
    """Raises InvalidRequest for more than ``most`` values, or MAX_OBJECTS objects, before any of them is made.

    A value takes 16 to 230 bytes of memory, and as little as two bytes of the text. None: ``MAX_VALUES``.
    """
    most = MAX_VALUES if most is None else most
    if values(data) <= most and data.count(b"{") <= MAX_OBJECTS:
        return
    plain = data.replace(rb"\\", b"").replace(rb"\"", b"")  # every quote that is left begins or ends a string
    # A value has two strings at most, its name and itself. More are not even cut.
    outside = b"".join(plain.split(b'"')[::2]) if plain.count(b'"') <= 4 * most else None
    if outside is None or values(outside) > most:
        raise InvalidRequest(f"{name} holds more than {most:,} values; send fewer at a time", param=param)
    if (objects := outside.count(b"{")) > MAX_OBJECTS:
        text = f"{name} holds {objects:,} objects, such as messages and their parts; the limit is {MAX_OBJECTS:,}"
        raise InvalidRequest(f"{text}: send fewer", param=param)


def values(data: bytes) -> int:
    """Commas and opening brackets of a JSON text, which has at most one value more."""
    return data.count(b",") + data.count(b"[") + data.count(b"{")


def _integer(text: str) -> int:
    if len(text) > MAX_DIGITS:
        raise ValueError(f"{len(text)} digits; the limit is {MAX_DIGITS}")
    return int(text)


def _float(text: str) -> float:
    """A number that is not whole.

    One that lies between two floats takes 8 µs. ``json`` alone would read 130,000 of them before another thread runs.
    """
    if len(text) > MAX_DIGITS:
        raise ValueError(f"{len(text)} characters; the limit is {MAX_DIGITS}")
    return float(text)


def _check_pairs(value: Any, name: str) -> None:
    """Raises InvalidRequest for half of a surrogate pair: JSON can write it, UTF-8 and tokenizers cannot hold it."""
    if (found := _halved(value)) is not None:
        half, path = found
        field = "".join(reversed(path)).removeprefix(".")
        text = f"{field or name} holds \\u{ord(half):04x} alone, which is half of a character"
        raise InvalidRequest(text, param=field or None)


def _halved(value: Any) -> tuple[str, list[str]] | None:
    """Half of a pair, and the path to the value that holds the half or whose field names do. None where none does.

    The path is in steps, the last one first. It is made on the way back: a value may have a name of megabytes, and
    100,000 values below it.
    """
    parts: Iterable[tuple[Any, Any]] = ()
    if isinstance(value, dict):
        if half := next(filter(None, map(HALF.search, value)), None):
            return half[0], []
        parts = value.items()
    elif isinstance(value, list):
        parts = enumerate(value)
    elif isinstance(value, str) and (half := HALF.search(value)):
        return half[0], []
    for step, one in parts:
        if (found := _halved(one)) is not None:
            found[1].append(f".{step}" if isinstance(step, str) else f"[{step}]")
            return found
    return None


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
