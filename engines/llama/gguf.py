"""The metadata and tensors of a GGUF file, read without llama.cpp: enough to estimate the memory of a model.

Format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md. The reader skips arrays and keeps only their length.
"""

from __future__ import annotations

import math
import os
import struct
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, BinaryIO

from edgeserve.dataclass import dataclass
from edgeserve.errors import EngineFailure

MAGIC = b"GGUF"
MAX_PAIRS, MAX_TENSORS, MAX_TEXT, MAX_ARRAY = 10_000, 1_000_000, 64 << 20, 1 << 40
SCALARS = {0: "B", 1: "b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 6: "<f", 7: "?", 10: "<Q", 11: "<q", 12: "<d"}
TEXT, ARRAY, FLOAT32 = 8, 9, 6
TOKENS = "tokenizer.ggml.tokens"


@dataclass(frozen=True, slots=True)
class Tensor:
    """One tensor of a file: its sizes, the fastest first and four of them, and ggml's number of its type.

    ``offset``: bytes from the start of the file's data.
    """

    sizes: tuple[int, int, int, int]
    kind: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Contents:
    """A file's metadata by key, the type of each entry, its tensors by name, and the tokens of it that were sought.

    ``data``: bytes of the tensors, with the gaps between them. ``places``: first byte and end of each entry's value.
    """

    header: Mapping[str, Any]
    kinds: Mapping[str, int]
    tensors: Mapping[str, Tensor]
    tokens: frozenset[bytes] = frozenset()
    data: int = 0
    places: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def bytes_of(self) -> dict[str, int]:
        """Bytes of each tensor by its name, with the gap behind it."""
        order = sorted(self.tensors, key=lambda name: self.tensors[name].offset)
        starts = [self.tensors[name].offset for name in order]
        return {name: end - start for name, start, end in zip(order, starts, [*starts[1:], self.data], strict=True)}


def read_header(path: Path) -> dict[str, Any]:
    """Metadata by key; an array is its length. Raises EngineFailure naming the file."""
    return dict(_read(path, tensors=False).header)


def read_contents(path: Path, sought: frozenset[bytes] = frozenset()) -> Contents:
    """Metadata and tensors; an array is its length. ``sought``: texts to look for in the vocabulary.

    Raises EngineFailure naming the file.
    """
    return _read(path, tensors=True, sought=sought)


def _read(path: Path, *, tensors: bool, sought: frozenset[bytes] = frozenset()) -> Contents:
    try:
        with path.open("rb") as file:
            if file.read(4) != MAGIC:
                raise EngineFailure(f"{path}: not a GGUF file")
            version, count, pairs = _unpack(file, "<I"), _unpack(file, "<Q"), _unpack(file, "<Q")
            if version < 2 or pairs > MAX_PAIRS or count > MAX_TENSORS:
                text = f"GGUF version {version} with {pairs} entries and {count} tensors cannot be read"
                raise EngineFailure(f"{path}: {text}")
            header, kinds, found = dict[str, Any](), dict[str, int](), set[bytes]()
            places = dict[str, tuple[int, int]]()
            for _ in range(pairs):
                name, kind = _text(file), _unpack(file, "<I")
                begin = file.tell()
                header[name] = _value(file, kind, sought if name == TOKENS else frozenset(), found)
                kinds[name], places[name] = kind, (begin, file.tell())
            if file.tell() > os.fstat(file.fileno()).st_size:
                raise struct.error("its last array is longer than the file")
            named = dict(_tensor(file) for _ in range(count if tensors else 0))
            data = max(0, os.fstat(file.fileno()).st_size - file.tell())
            return Contents(header, kinds, named, frozenset(found), data, places)
    except FileNotFoundError:
        raise EngineFailure(f"{path}: no such file; pull the model again with `edgeserve pull`") from None
    except (OSError, struct.error, UnicodeDecodeError, KeyError) as error:
        raise EngineFailure(f"{path}: not a complete GGUF file ({error})") from error


def _tensor(file: BinaryIO) -> tuple[str, Tensor]:
    name, dimensions = _text(file), _unpack(file, "<I")
    if dimensions > 4:
        raise struct.error(f"a tensor of {dimensions} dimensions")
    sizes = [_unpack(file, "<Q") for _ in range(dimensions)] + [1] * (4 - dimensions)
    kind, offset = _unpack(file, "<I"), _unpack(file, "<Q")
    return name, Tensor((sizes[0], sizes[1], sizes[2], sizes[3]), kind, offset)


def _unpack(file: BinaryIO, form: str) -> Any:
    return struct.unpack(form, file.read(struct.calcsize(form)))[0]


def _text(file: BinaryIO) -> str:
    length = _unpack(file, "<Q")
    if length > MAX_TEXT:
        raise struct.error(f"a text of {length} bytes")
    return file.read(length).decode()


def _value(file: BinaryIO, kind: int, sought: frozenset[bytes], found: set[bytes]) -> Any:
    """The value; of an array its length. Texts of an array that are ``sought`` are added to ``found``."""
    if kind == TEXT:
        return _text(file)
    if kind != ARRAY:
        return _unpack(file, SCALARS[kind])
    inner, count = _unpack(file, "<I"), _unpack(file, "<Q")
    if count > MAX_ARRAY:
        raise struct.error(f"an array of {count} values")
    if inner == TEXT:
        lengths = set(map(len, sought))
        for _ in range(count):
            length = _unpack(file, "<Q")
            if length > MAX_TEXT:
                raise struct.error(f"a text of {length} bytes")
            if length in lengths:
                found |= sought & {file.read(length)}
            else:
                file.seek(length, 1)
    else:
        file.seek(struct.calcsize(SCALARS[inner]) * count, 1)
    return count


def whole(header: Mapping[str, Any], key: str, default: int = 0) -> int:
    """The number at ``key`` as a whole number; ``default`` without one, and for one that is negative or no number."""
    value = header.get(key, default)
    fits = isinstance(value, int | float) and math.isfinite(value) and value >= 0
    return int(value) if fits else default


@dataclass(frozen=True, slots=True)
class Shape:
    """The numbers that decide the memory of a language model."""

    layers: int
    width: int
    feed_forward: int
    key_value_width: int
    """Numbers that one token keeps in the KV cache of one layer: keys and values of all heads."""
    vocabulary: int
    trained_context: int
    window: int
    """Tokens of the sliding attention window; 0 for none."""


def read_shape(path: Path) -> Shape:
    """The shape from the header of a model file. Raises EngineFailure when the header has none."""
    header = read_header(path)
    architecture = header.get("general.architecture")

    def number(key: str, default: int = 0) -> int:
        return whole(header, f"{architecture}.{key}", default)

    width, heads = number("embedding_length"), max(1, number("attention.head_count", 1))
    if not width or not number("block_count"):
        raise EngineFailure(f"{path}: names no layers of a language model; its architecture is {architecture!r}")
    shared = number("attention.head_count_kv", heads)
    head_width = number("attention.key_length", width // heads) + number("attention.value_length", width // heads)
    return Shape(
        layers=number("block_count"),
        width=width,
        feed_forward=number("feed_forward_length", 4 * width),
        key_value_width=shared * head_width,
        vocabulary=number("vocab_size", whole(header, TOKENS, 32_000)),
        trained_context=number("context_length", 2048),
        window=number("attention.sliding_window"),
    )
