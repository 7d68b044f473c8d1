"""Reader of CTranslate2 checkpoints (``model.bin``, version 6), as faster-whisper models carry them.

Layout, little-endian:

    version     u32
    spec name   u16 length with its NUL, bytes
    revision    u32
    count       u32
    variables   for each: name, rank u8, dimensions u32[rank], dtype u8, byte count u32, data
    aliases     count u32, then (alias, name) pairs

Variables are read lazily from the mapped file.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.errors import StoreError

VERSION = 6
BFLOAT16 = 5
DTYPES = {0: "<f4", 1: "i1", 2: "<i2", 3: "<i4", 4: "<f2", BFLOAT16: "<u2"}
"""NumPy types. NumPy has no bfloat16: its 16 bits become the upper half of a float32."""
MAX_RANK = 8


@dataclass(frozen=True, slots=True)
class Variable:
    dtype: str
    shape: tuple[int, ...]
    offset: int
    size: int


class Checkpoint:
    """Variables of a checkpoint by name. Raises StoreError for a file that it cannot read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._variables: dict[str, Variable] = {}
        self._aliases: dict[str, str] = {}
        try:
            with path.open("rb") as file:
                self._read(file, path.stat().st_size)
        except OSError as error:
            raise StoreError(f"{path}: cannot be read: {error.strerror}") from error
        except (struct.error, UnicodeDecodeError) as error:
            raise StoreError(f"{path}: not a complete CTranslate2 checkpoint ({error}); pull it again") from error

    def __iter__(self) -> Iterator[str]:
        return iter(self._variables)

    def __contains__(self, name: str) -> bool:
        return self._aliases.get(name, name) in self._variables

    def read(self, name: str) -> Any:
        """The variable as stored: a NumPy array over the mapped file."""
        import numpy

        one = self._variables.get(self._aliases.get(name, name))
        if one is None:
            raise StoreError(f"{self.path}: has no variable {name}; is it a Whisper checkpoint?")
        return numpy.memmap(self.path, one.dtype, "r", one.offset, one.shape or (1,))

    def weight(self, name: str) -> Any:
        """The variable in float32, in the stored shape. int8 weights are multiplied by their ``_scale`` per row."""
        import numpy

        stored = self.read(name)
        if stored.dtype in (numpy.float16, numpy.float32):
            return numpy.asarray(stored, numpy.float32)
        if stored.dtype == numpy.uint16:
            return (stored.astype(numpy.uint32) << 16).view(numpy.float32)
        if stored.dtype == numpy.int8 and f"{name}_scale" in self:
            scale = numpy.asarray(self.read(f"{name}_scale"), numpy.float32)
            return numpy.asarray(stored, numpy.float32) / scale.reshape(-1, *[1] * (stored.ndim - 1))
        raise StoreError(
            f"{self.path}: {name} is stored as {stored.dtype}; float32, float16, bfloat16, int8 can be converted"
        )

    def integer(self, name: str) -> int:
        return int(self.read(name).ravel()[0])

    def _read(self, file: Any, end: int) -> None:
        version = _number(file, "<I")
        if version != VERSION:
            raise StoreError(f"{self.path}: CTranslate2 format version {version}; version {VERSION} is expected")
        self.spec = _text(file)
        self.revision = _number(file, "<I")
        for _ in range(_number(file, "<I")):
            name, rank = _text(file), _number(file, "<B")
            if rank > MAX_RANK:
                raise StoreError(f"{self.path}: {name} has {rank} dimensions; the file is damaged")
            shape = struct.unpack(f"<{rank}I", file.read(4 * rank))
            dtype, size = _number(file, "<B"), _number(file, "<I")
            if dtype not in DTYPES:
                raise StoreError(f"{self.path}: {name} has the unknown type {dtype}")
            if size != math.prod(shape) * int(DTYPES[dtype][-1]):
                raise StoreError(f"{self.path}: {name} has {size} bytes for the shape {shape}; the file is damaged")
            self._variables[name] = Variable(DTYPES[dtype], shape, file.tell(), size)
            if file.seek(size, 1) > end:
                raise StoreError(f"{self.path}: ends within {name}; pull it again")
        for _ in range(_number(file, "<I")):
            alias, name = _text(file), _text(file)
            self._aliases[alias] = name


def _number(file: Any, form: str) -> int:
    return int(struct.unpack(form, file.read(struct.calcsize(form)))[0])


def _text(file: Any) -> str:
    length = _number(file, "<H")
    data: bytes = file.read(length)
    if len(data) < length:
        raise struct.error("a name is cut short")
    return data.rstrip(b"\0").decode()
