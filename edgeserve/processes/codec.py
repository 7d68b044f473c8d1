"""Requests, events and figures as JSON and raw bytes, for the border between processes.

    None, bool, int, float, str   themselves
    tuple, list                   a list, which comes back as a tuple
    dict                          {"d": {…}}
    bytes                         {"b": [start, end]}: a stretch of the body
    memoryview                    {"m": [start, end]}: the same, which the receiver reads where it lies
    Path                          {"p": "…"}
    Passed                        {"f": n}: the n-th descriptor of the frame
    a dataclass of ``edgeserve.messages`` and a few more   {"c": "Name", "v": [fields in order]}

Only the listed classes can come back, whatever the other process sends.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from edgeserve import messages
from edgeserve.dataclass import dataclass
from edgeserve.engine import Adapter, Footprint, ModelSpec
from edgeserve.processes.shapes import unfit
from edgeserve.processes.state import EngineState
from edgeserve.slots import SlotState

Json = Any
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
        self._size = 0
        self.descriptors: list[int] = []

    @property
    def body(self) -> bytes | memoryview:
        return self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)

    def write(self, value: object) -> Json:
        """Raises TypeError for a value of another kind."""
        if value is None or isinstance(value, str | bool | int | float):
            return value
        if isinstance(value, tuple | list):
            return [self.write(one) for one in value]
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
        self._read = 0

    def read(self, value: Json) -> Any:
        """The value that ``Writer.write`` encoded. Raises ValueError for anything else."""
        if isinstance(value, list):
            return tuple([self.read(one) for one in value])
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

    def _stretch(self, start: int, end: int) -> memoryview:
        if not self._read == start <= end <= len(self._body):
            raise ValueError(f"bytes {start} to {end} of {len(self._body)}, behind byte {self._read}")
        self._read = end
        return self._body[start:end]


def read(value: Json, body: memoryview, descriptors: Sequence[int] = ()) -> Any:
    """The only value of a frame, as ``Reader.read``."""
    return Reader(body, descriptors).read(value)
