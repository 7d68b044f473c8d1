"""The note beside a prepared ONNX model: its key, and the files that must exist."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Literal

from edgeserve.dataclass import dataclass
from edgeserve.engines.onnx.key import Key, Machine, Source

NOTE = "note.json"
BLOCKS, BLOCK = 16, 4096
"""Blocks of a file in its sample, and bytes of each."""

Form = Literal["prepacked", "external", "original"]
"""Forms of a model:

- prepacked: weights are mapped in the order that the kernels read.
- external: weights are mapped.
- original: the model is used as pulled, for the note's reason.
"""


@dataclass(frozen=True, slots=True)
class Note:
    """``files``: names and sizes of the prepared files. ``samples``: their digests; none in older notes."""

    form: Form
    reason: str
    files: Mapping[str, int]
    key: Key
    samples: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, folder: Path, form: Form, reason: str, key: Key) -> Note:
        paths = list(folder.iterdir())
        sizes, samples = {one.name: one.stat().st_size for one in paths}, {one.name: sample(one) for one in paths}
        return cls(form, reason, sizes, key, samples)

    @classmethod
    def read(cls, folder: Path) -> Note | None:
        """None for a damaged note, and when a prepared file is damaged or missing. Raises OSError."""
        try:
            sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
            found = json.loads((folder / NOTE).read_text(encoding="utf-8"))
            sources = {name: Source(**one) for name, one in found["key"]["sources"].items()}
            key = Key(Machine(**found["key"]["machine"]), sources)
            note = cls(found["form"], found["reason"], found["files"], key, found.get("samples", {}))
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return None
        if any(sizes.get(name) != size for name, size in note.files.items()):
            return None
        same = all(sample(folder / name) == digest for name, digest in note.samples.items())
        return note if same else None

    def write(self, folder: Path) -> None:
        """Write the note; a reader sees the whole note or none."""
        partial = folder / f".{NOTE}"
        partial.write_text(json.dumps(dataclasses.asdict(self), indent=1), encoding="utf-8")
        partial.replace(folder / NOTE)


def sample(path: Path) -> str:
    """A digest of some blocks, spread over the file: it recognises another file of the same size, and reads 64 KB.

    Raises OSError.
    """
    digest, size = hashlib.sha256(), path.stat().st_size
    with path.open("rb") as file:
        for number in range(BLOCKS):
            file.seek(max(0, size - BLOCK) * number // (BLOCKS - 1))
            digest.update(file.read(BLOCK))
    return digest.hexdigest()
