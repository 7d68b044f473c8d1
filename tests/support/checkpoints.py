"""Writes CTranslate2 checkpoints for the tests of their reader."""

from __future__ import annotations

import struct
from pathlib import Path

import numpy

CODES = {"float32": 0, "int8": 1, "int16": 2, "int32": 3, "float16": 4, "uint16": 5}
"""uint16 stands for bfloat16, which NumPy lacks."""


def text(name: str) -> bytes:
    return struct.pack("<H", len(name) + 1) + name.encode() + b"\0"


def write_checkpoint(
    path: Path, variables: dict[str, numpy.ndarray], aliases: dict[str, str] | None = None, version: int = 6
) -> Path:
    with path.open("wb") as file:
        file.write(struct.pack("<I", version) + text("WhisperSpec") + struct.pack("<II", 3, len(variables)))
        for name, array in variables.items():
            head = text(name) + struct.pack(f"<B{array.ndim}I", array.ndim, *array.shape)
            file.write(head + struct.pack("<BI", CODES[array.dtype.name], array.nbytes))
            file.write(array.tobytes())
        file.write(struct.pack("<I", len(aliases or {})))
        file.write(b"".join(text(alias) + text(name) for alias, name in (aliases or {}).items()))
    return path
