"""The first bytes of a file: they show its kind, or a web page in its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from pathlib import Path, PurePath
from types import MappingProxyType

from edgeserve.errors import SourceUnavailable

KINDS: Mapping[str, tuple[str, tuple[bytes, ...]]] = MappingProxyType(
    {
        ".gguf": ("GGUF", (b"GGUF",)),
        ".onnx": ("ONNX", (b"\x08",)),  # the tag of ir_version, the first field of a ModelProto
        ".npz": ("NumPy", (b"PK\x03\x04", b"PK\x05\x06")),
    }
)
"""Name of a kind and its first bytes, by the ending of the file's name."""
PAGE = re.compile(rb"(\xef\xbb\xbf)?\s*<(!doctype|!--|html|head|body|script|\?xml)", re.IGNORECASE)
POINTER = b"version https://git-lfs"
LENGTH = 512
"""Bytes to check."""
SHOWN = 24
"""Bytes that an error message shows."""


def objection(name: str, first: bytes) -> str:
    """The reason why a file of this name cannot begin with these bytes; empty when it can."""
    if not first:
        return "is empty"
    if PAGE.match(first):
        return "is a web page; the address must be that of the file itself (a model hub's has /resolve/ in it)"
    if first.startswith(POINTER):
        return "is a pointer of Git LFS, not the file that it points to"
    kind, beginnings = KINDS.get(PurePath(name).suffix.lower(), ("", ()))
    if beginnings and not first.startswith(beginnings):
        return f"is no {kind} file: it begins with {first[:SHOWN]!r}"
    return ""


def look(files: Iterable[Path], source: object) -> None:
    """Raises SourceUnavailable for the first file of a wrong kind."""
    for path in files:
        with path.open("rb") as file:
            first = file.read(LENGTH)
        if wrong := objection(path.name, first):
            raise SourceUnavailable(f"{path.name} of {source} {wrong}")
