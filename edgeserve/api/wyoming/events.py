"""Events on the wire: a line of JSON, then the bytes of its data and of its payload, whose lengths the line gives."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping
from dataclasses import field
from typing import Any

from edgeserve.api.fields import Fields
from edgeserve.api.json_body import READS, SMALL, VALUE_BYTES, read_object, values
from edgeserve.dataclass import dataclass
from edgeserve.errors import InvalidRequest, TooLarge

VERSION = "1.10.2"
"""Version of the package ``wyoming`` whose events these are. Every header has it."""
MAX_LINE, MAX_DATA, MAX_PAYLOAD = 64 << 10, 1 << 20, 1 << 20
"""Bytes of a header line, of its data and of its payload."""
MAX_VALUES, MAX_DATA_VALUES = 1024, 4096
"""Values in a header line, which is read at once, and in data. They take many times their bytes."""


@dataclass(frozen=True, slots=True)
class Event:
    """An event that is sent."""

    type: str
    data: Mapping[str, Any] = field(default_factory=dict)
    payload: bytes = field(default=b"", repr=False)

    def write(self) -> bytes:
        """The event as bytes. Characters that UTF-8 cannot hold are escaped."""
        head: dict[str, Any] = {"type": self.type, "version": VERSION}
        data = _json(self.data) if self.data else b""
        if data:
            head["data_length"] = len(data)
        if self.payload:
            head["payload_length"] = len(self.payload)
        return b"".join((_json(head), b"\n", data, self.payload))


@dataclass(frozen=True, slots=True)
class Received:
    """An event that came. ``inline``: the data in its header; ``data``: those behind it, not read yet."""

    type: str
    inline: Mapping[str, Any] = field(default_factory=dict)
    data: bytes = field(default=b"", repr=False)
    payload: bytes = field(default=b"", repr=False)
    head: int = 0
    """Bytes of memory that the header takes, about."""

    @property
    def size(self) -> int:
        """Bytes of memory, about."""
        return self.head + len(self.data) + len(self.payload)

    async def fields(self) -> Fields:
        """All data; those behind the header win. Raises InvalidRequest."""
        if not self.data:
            return Fields(dict(self.inline))
        name = f"the data of {self.type!r}"
        small = len(self.data) <= SMALL
        read = functools.partial(read_object, self.data, name, MAX_DATA_VALUES)
        found = read() if small else await READS.run(read)
        return Fields({**self.inline, **dict(found.items())})


@dataclass(frozen=True, slots=True)
class _Head:
    type: str
    inline: Mapping[str, Any]
    data_length: int
    payload_length: int
    size: int


class Parser:
    """Cuts the bytes of one connection into events."""

    def __init__(self) -> None:
        self._held = bytearray()
        self._head: _Head | None = None

    @property
    def has_part(self) -> bool:
        """Whether part of an event has come."""
        return bool(self._held) or self._head is not None

    @property
    def held(self) -> int:
        """Bytes of memory that the part takes, about."""
        return len(self._held) + (self._head.size if self._head is not None else 0)

    @property
    def missing(self) -> int:
        """Bytes that come next and cost no parsing: data and payload."""
        if self._head is None:
            return 0
        return self._head.data_length + self._head.payload_length - len(self._held)

    def feed(self, data: bytes) -> Iterator[Received]:
        """Events that are whole now. Raises InvalidRequest and TooLarge: no later event can be found then."""
        start = len(self._held)  # bytes before this one hold no end of a line
        self._held += data
        while True:
            if self._head is None:
                end = self._held.find(b"\n", start)
                if max(end, len(self._held) if end < 0 else 0) > MAX_LINE:
                    raise TooLarge(f"the header of an event has more than {MAX_LINE} bytes")
                if end < 0:
                    return
                line = bytes(self._held[:end])
                del self._held[: end + 1]
                start = 0
                if not line.strip():
                    continue
                self._head = _read_head(line)
            if self.missing > 0:
                return
            yield self._whole(self._head)
            start = 0

    def _whole(self, head: _Head) -> Received:
        middle, end = head.data_length, head.data_length + head.payload_length
        event = Received(head.type, head.inline, bytes(self._held[:middle]), bytes(self._held[middle:end]), head.size)
        del self._held[:end]
        self._head = None
        return event


def _read_head(line: bytes) -> _Head:
    fields = read_object(line, "the header of an event", MAX_VALUES)
    kind, inline = fields.required_text("type", limit=128), fields.raw("data") or {}
    if not isinstance(inline, dict):
        raise fields.error("data", "must be an object")
    lengths = _length(fields, "data_length", MAX_DATA), _length(fields, "payload_length", MAX_PAYLOAD)
    return _Head(kind, inline, *lengths, len(line) + VALUE_BYTES * values(line) if inline else 0)


def _length(fields: Fields, name: str, most: int) -> int:
    value = fields.raw(name)
    if value is None:
        return 0
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise InvalidRequest(f"{name} must be a whole number of at least 0", param=name)
    if value > most:
        raise TooLarge(f"{name} is {value}; the limit is {most} bytes", param=name)
    return value


def _json(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode(errors="backslashreplace")
