"""Dictionaries in one block of bytes, which maps words to JSON values. A look-up reads only the block.

The block is a seventh of the size of Python objects, and mapped from a file it takes no private memory. Its layout,
little-endian:

1. magic, and the CRC-32 of all bytes that follow;
2. u32 number of buckets, u32 offset of each bucket and of the end;
3. for every word, bucket by bucket, ``\\n key \\t json``.

A key is the letter of its dictionary and the word. Its bucket is its CRC-32 modulo the number of buckets.
"""

from __future__ import annotations

import json
import mmap
import struct
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeserve.dataclass import dataclass

MAGIC = b"EWT2"
CHECKSUM = struct.Struct("<4sI")
HEAD = struct.Struct("<4sII")
BOUNDS = struct.Struct("<II")
OFFSET = 4

_DECODER = json.JSONDecoder()
"""The decoder alone: ``json.loads`` would detect the encoding first, which takes half of its time for short values."""
Dictionaries = Mapping[str, Mapping[str, Any]]
"""Dictionaries by a letter each, from words without tabs and line ends to JSON values."""


class WordTable:
    """Several dictionaries. ``path``: the file that maps them, if any. Raises ValueError for damaged bytes."""

    def __init__(self, data: bytes | mmap.mmap, path: Path | None = None) -> None:
        self.path = path
        self._data = data
        if len(data) < HEAD.size:
            raise ValueError("not a word table")
        magic, checksum, self._buckets = HEAD.unpack_from(data)
        with memoryview(data) as view, view[CHECKSUM.size :] as rest:
            if magic != MAGIC or not self._buckets or zlib.crc32(rest) != checksum:
                raise ValueError("not a word table, or not all of it")

    @classmethod
    def map(cls, path: Path) -> WordTable:
        """Map a file, and read the whole file once for its checksum. Raises OSError and ValueError."""
        with path.open("rb") as file:
            return cls(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ), path)

    def __getitem__(self, letter: str) -> Words:
        return Words(self, letter)

    def find(self, key: bytes) -> bytes | None:
        """The JSON stored for a key."""
        start, end = BOUNDS.unpack_from(self._data, HEAD.size + OFFSET * (zlib.crc32(key) % self._buckets))
        mark = b"\n%s\t" % key
        found = self._data.find(mark, start, end)
        if found < 0:
            return None
        stop = self._data.find(b"\n", found + len(mark), end)
        return self._data[found + len(mark) : end if stop < 0 else stop]


@dataclass(frozen=True, slots=True)
class Words:
    """One dictionary in a table, with ``get`` and ``in``."""

    table: WordTable
    letter: str

    def get(self, word: str, default: Any = None) -> Any:
        found = self.table.find(_key(self.letter, word))
        return default if found is None else _decoded(found)

    def __contains__(self, word: str) -> bool:
        return self.table.find(_key(self.letter, word)) is not None


def _decoded(text: bytes) -> Any:
    return _DECODER.raw_decode(text.decode("utf-8", "surrogatepass"))[0]


def _key(letter: str, word: str) -> bytes:
    return f"{letter}{word}".encode("utf-8", "surrogatepass")


def encode(dictionaries: Dictionaries) -> bytes:
    """The bytes of a table. Raises ValueError for a word with a tab or a line end."""
    buckets: list[list[bytes]] = [[] for _ in range(max(1, sum(map(len, dictionaries.values()))))]
    for letter, words in dictionaries.items():
        for word, value in words.items():
            key = _key(letter, word)
            if b"\n" in key or b"\t" in key:
                raise ValueError(f"{word!r} cannot be a word of a table")
            text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
            line = b"\n%s\t%s" % (key, text.encode("utf-8", "surrogatepass"))
            buckets[zlib.crc32(key) % len(buckets)].append(line)
    bodies = [b"".join(bucket) for bucket in buckets]
    offsets = [HEAD.size + OFFSET * (len(bodies) + 1)]
    for body in bodies:
        offsets.append(offsets[-1] + len(body))
    rest = b"".join((struct.pack(f"<{len(offsets) + 1}I", len(bodies), *offsets), *bodies))
    return CHECKSUM.pack(MAGIC, zlib.crc32(rest)) + rest
