"""Reader of PyTorch checkpoints in the form before version 1.6. No PyTorch, and no code of the file runs.

Layout:

    pickles     a magic number; the version of the protocol, 1001; facts of the system; the saved object; storage keys
    storages    for each key, in order: element count i64, elements, little-endian

The saved object names its storages by persistent ids. The unpickler knows four names: an ordered mapping, float32 and
int64 storages, and a tensor over a stretch of a storage. Any other name is an error, so the file can call nothing else.
"""

from __future__ import annotations

import math
import pickle
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeserve.dataclass import dataclass
from edgeserve.errors import StoreError

MAGIC, PROTOCOL = 0x1950A86A20F9469CFC6C, 1001
MAX_RANK = 8


@dataclass(frozen=True, slots=True)
class _Kind:
    """Type of the elements of a storage, in NumPy's words."""

    dtype: str


@dataclass(frozen=True, slots=True)
class _Storage:
    kind: _Kind
    key: str
    count: int


@dataclass(frozen=True, slots=True)
class _Tensor:
    storage: _Storage
    offset: int
    shape: tuple[int, ...]

    def read(self, elements: Any) -> Any:
        """The tensor among the elements of its storage. Raises ValueError where it lies outside."""
        count = math.prod(self.shape)
        if len(self.shape) > MAX_RANK or min((self.offset, *self.shape)) < 0 or self.offset + count > len(elements):
            raise ValueError(f"a tensor {self.shape} at {self.offset} of {len(elements)} elements")
        return elements[self.offset : self.offset + count].reshape(self.shape)


class _Mapping(dict[Any, Any]):
    """Stands for an OrderedDict, whose pickled form may set attributes."""


def _tensor(storage: _Storage, offset: int, shape: tuple[int, ...], stride: tuple[int, ...], *rest: Any) -> _Tensor:
    """Stands for PyTorch's function. Raises ValueError for a tensor that is no contiguous stretch."""
    if stride != tuple(math.prod(shape[at + 1 :]) for at in range(len(shape))):
        raise ValueError(f"a tensor {shape} with the strides {stride}; a contiguous one is expected")
    return _Tensor(storage, offset, shape)


_NAMES: Mapping[tuple[str, str], Any] = {
    ("collections", "OrderedDict"): _Mapping,
    ("torch._utils", "_rebuild_tensor_v2"): _tensor,
    ("torch", "FloatStorage"): _Kind("<f4"),
    ("torch", "LongStorage"): _Kind("<i8"),
}


class _Unpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        try:
            return _NAMES[module, name]
        except KeyError:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no tensor needs") from None

    def persistent_load(self, pid: Any) -> _Storage:
        kind, key, count = pid[1], pid[2], pid[4]
        if not isinstance(kind, _Kind) or not isinstance(key, str) or not isinstance(count, int):
            raise pickle.UnpicklingError("a storage of an unknown form")
        return _Storage(kind, key, count)


def read(path: Path, part: str) -> Mapping[str, Any]:
    """The tensors under the key ``part`` of the saved object, by name: NumPy arrays over the mapped file.

    Raises StoreError for a file of another form.
    """
    try:
        with path.open("rb") as file:
            if _Unpickler(file).load() != MAGIC or _Unpickler(file).load() != PROTOCOL:
                raise ValueError("it does not begin with PyTorch's number and version")
            _Unpickler(file).load()
            saved = _Unpickler(file).load()
            storages = _storages(file, path, saved[part])
        return {name: one.read(storages[one.storage.key]) for name, one in saved[part].items()}
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {error.strerror}") from error
    except Exception as error:  # a pickle that is damaged, or no pickle, raises nearly anything
        text = f"{path}: no PyTorch checkpoint of the older form ({type(error).__name__}: {error}); pull it again"
        raise StoreError(text) from error


def _storages(file: Any, path: Path, tensors: Mapping[str, _Tensor]) -> Mapping[str, Any]:
    """The storages of these tensors by key. Storages of other parts of the object are passed over by their length."""
    import numpy

    kinds = {one.storage.key: one.storage.kind.dtype for one in tensors.values()}
    size = path.stat().st_size
    found: dict[str, Any] = {}
    for key in _Unpickler(file).load():
        (count,) = struct.unpack("<q", file.read(8))
        dtype = kinds.get(key, "<f4")
        length = count * int(dtype[-1])
        if count < 0 or file.tell() + length > size:
            raise ValueError(f"the storage {key} has {count} elements, and the file ends before")
        if key in kinds:
            found[key] = numpy.memmap(path, dtype, "r", file.tell(), (count,))
        file.seek(length, 1)
    return found
