"""Requests, events and figures as JSON and raw bytes, for the border between processes.

    None, bool, int, float, str   themselves
    tuple, list                   a list, which comes back as a tuple
    dict                          {"d": {…}}
    a long str                    {"t": [start, end]}: a stretch of the body, in UTF-8
    bytes                         {"b": [start, end]}: a stretch of the body
    tuple, list of bytes          {"B": [start, length, length, …]}: one stretch after the other
    long tuple, list of int       {"i": [start, end]}: a stretch of the body, 8 bytes a number, of this machine's order
    memoryview                    {"m": [start, end]}: as bytes, and the receiver reads it where it lies
    Path                          {"p": "…"}
    Passed                        {"f": n}: the n-th descriptor of the frame
    a dataclass of ``edgeserve.messages`` and a few more   {"c": "Name", "v": [fields in order]}

Long values go into the body: JSON takes many times its size once it is read, so a child may send little of it
(``frames.FROM_CHILD``). Only the listed classes can come back, whatever the other process sends.
"""

from __future__ import annotations

import array
import contextlib
import dataclasses
import functools
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, cast

from edgeserve import messages
from edgeserve.dataclass import dataclass
from edgeserve.engine import Adapter, Footprint, ModelSpec
from edgeserve.processes.shapes import unfit
from edgeserve.processes.state import EngineState
from edgeserve.slots import SlotState
from edgeserve.units import KB, MB

Json = Any
LONG = 64 * KB
"""Characters of a text that still goes into the JSON."""
MANY = 1024
"""Numbers of a list that still go into the JSON."""
MOST_PACKED = 64 * MB
"""Bytes of texts and numbers in one body, which take up to five times as much once they are read."""
_CLASSES: dict[str, type] = {
    # Not dataclasses.is_dataclass, which makes the methods of each
    name: one
    for name, one in vars(messages).items()
    if isinstance(one, type) and "__match_args__" in vars(one)
} | {one.__name__: one for one in (Adapter, Footprint, ModelSpec, EngineState, SlotState)}


@functools.cache
def _fields(kind: type[Any]) -> tuple[str, ...]:
    return tuple(field.name for field in dataclasses.fields(kind))


def allow(one: type) -> None:
    """Let a dataclass of an upper floor cross the border. Both processes must call this."""
    _CLASSES[one.__name__] = one


@dataclass(frozen=True, slots=True)
class Passed:
    """A descriptor in place of a value. The sender keeps its own; the receiver gets one of its own."""

    descriptor: int


class Writer:
    """Encodes the values of one frame, and collects their bytes and descriptors."""

    def __init__(self) -> None:
        self._parts: list[bytes | memoryview] = []
        self._size = self._packed = 0
        self.descriptors: list[int] = []

    @property
    def body(self) -> bytes | memoryview:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    def write(self, value: object) -> Json:
        """Raises TypeError for a value of another kind."""
        if isinstance(value, str):
            return value if len(value) <= LONG else self._pack("t", value, value.encode("utf-8", "surrogatepass"))
        if value is None or isinstance(value, bool | int | float):
            return value
        if isinstance(value, tuple | list):
            return self._list(value)
        if isinstance(value, bytes | memoryview):
            return {"b" if isinstance(value, bytes) else "m": self._add(value)}
        if isinstance(value, Mapping):
            return {"d": {str(name): self.write(one) for name, one in value.items()}}
        if isinstance(value, Path):
            return {"p": str(value)}
        if isinstance(value, Passed):
            self.descriptors.append(value.descriptor)
            return {"f": len(self.descriptors) - 1}
        name = type(value).__name__
        kind: Any = _CLASSES.get(name)
        if kind is not type(value):
            raise TypeError(f"{name} cannot cross the border between processes")
        return {"c": name, "v": [self.write(getattr(value, field)) for field in _fields(kind)]}  # type: ignore[arg-type]  # a class

    def _list(self, values: Sequence[object]) -> Json:
        if len(values) > 1 and set(map(type, values)) == {bytes}:
            start, _ = self._add(b"".join(cast(Sequence[bytes], values)))
            return {"B": [start, *map(len, cast(Sequence[bytes], values))]}
        if len(values) > MANY and set(map(type, values)) == {int}:
            with contextlib.suppress(OverflowError):  # a number of more than 8 bytes
                return self._pack("i", values, array.array("q", cast(Sequence[int], values)).tobytes())
        return [self.write(one) for one in values]

    def _pack(self, kind: str, value: object, data: bytes) -> Json:
        """Beyond ``MOST_PACKED``, values stay in the JSON, whose limit the sender knows from the channel."""
        if self._packed + len(data) > MOST_PACKED:
            return value
        self._packed += len(data)
        return {kind: self._add(data)}

    def _add(self, data: bytes | memoryview) -> list[int]:
        start = self._size
        self._parts.append(data)
        self._size += len(data)
        return [start, self._size]


class Reader:
    """Decodes the values of one frame, in the order in which ``Writer`` encoded them.

    Each byte of the body belongs to one value, so that no frame grows when it is read.
    """

    def __init__(self, body: memoryview, descriptors: Sequence[int] = ()) -> None:
        self._body = body
        self._descriptors = descriptors
        self._read = self._packed = 0

    def read(self, value: Json) -> Any:
        """The value that ``Writer.write`` encoded. Raises ValueError for anything else."""
        if isinstance(value, list):
            return tuple([self.read(one) if isinstance(one, list | dict) else one for one in value])
        if not isinstance(value, dict):
            return value
        try:
            return self._object(value)
        except (KeyError, IndexError, TypeError, AttributeError, RecursionError) as error:
            raise ValueError(f"no value of an edgeserve process: {type(error).__name__}: {error}") from error

    def _object(self, value: dict[str, Json]) -> Any:
        if "c" in value:
            return self._instance(value["c"], value["v"])
        if "b" in value:
            return bytes(self._stretch(*value["b"]))
        if "t" in value:
            return str(self._unpack(*value["t"]), "utf-8", "surrogatepass")
        if "i" in value:
            return tuple(array.array("q", self._unpack(*value["i"])))
        if "B" in value:
            return self._several(*value["B"])
        if "m" in value:
            return self._stretch(*value["m"])
        if "p" in value:
            return Path(value["p"])
        if "f" in value:
            return Passed(self._descriptors[value["f"]])
        return {name: self.read(one) for name, one in value["d"].items()}

    def _instance(self, name: str, values: Json) -> Any:
        fields = [self.read(one) for one in values]
        kind = _CLASSES[name]
        found = kind(**dict(zip(_fields(kind), fields, strict=True)))
        if wrong := unfit(found):
            raise ValueError(f"{name}.{wrong} of another type")
        return found

    def _unpack(self, start: int, end: int) -> bytes:
        data = self._stretch(start, end)
        self._packed += len(data)
        if self._packed > MOST_PACKED:
            raise ValueError(f"{self._packed} bytes of texts and numbers")
        return bytes(data)

    def _several(self, start: int, *lengths: int) -> tuple[bytes, ...]:
        if min(lengths, default=0) < 0:
            raise ValueError("bytes of a length below 0")
        data = bytes(self._stretch(start, start + sum(lengths)))
        return tuple([data[one:end] for one, end in itertools.pairwise(itertools.accumulate((0, *lengths)))])

    def _stretch(self, start: int, end: int) -> memoryview:
        if not self._read == start <= end <= len(self._body):
            raise ValueError(f"bytes {start} to {end} of {len(self._body)}, behind byte {self._read}")
        self._read = end
        return self._body[start:end]


def read(value: Json, body: memoryview, descriptors: Sequence[int] = ()) -> Any:
    """The only value of a frame, as ``Reader.read``."""
    return Reader(body, descriptors).read(value)
