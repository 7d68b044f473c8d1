"""The note beside a prepared ONNX model: its key, and the files that must exist."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from engines.onnx.key import Key, Machine, Source

NOTE = "note.json"

Form = Literal["prepacked", "external", "original"]
"""Forms of a model:

- prepacked: weights are mapped in the order that the kernels read.
- external: weights are mapped.
- original: the model is used as pulled, for the note's reason.
"""


@dataclass(frozen=True, slots=True)
class Note:
    """``files``: names and sizes of the prepared files."""

    form: Form
    reason: str
    files: Mapping[str, int]
    key: Key

    @classmethod
    def of(cls, folder: Path, form: Form, reason: str, key: Key) -> Note:
        return cls(form, reason, {path.name: path.stat().st_size for path in folder.iterdir()}, key)

    @classmethod
    def read(cls, folder: Path) -> Note | None:
        """None for a damaged note, and when a prepared file is damaged or missing. Raises OSError."""
        try:
            sizes = {path.name: path.stat().st_size for path in folder.iterdir()}
            found = json.loads((folder / NOTE).read_text(encoding="utf-8"))
            sources = {name: Source(**one) for name, one in found["key"]["sources"].items()}
            key = Key(Machine(**found["key"]["machine"]), sources)
            note = cls(found["form"], found["reason"], found["files"], key)
        except (FileNotFoundError, ValueError, KeyError, TypeError, AttributeError):
            return None
        return note if all(sizes.get(name) == size for name, size in note.files.items()) else None

    def write(self, folder: Path) -> None:
        """Write the note; a reader sees the whole note or none."""
        partial = folder / f".{NOTE}"
        partial.write_text(json.dumps(dataclasses.asdict(self), indent=1), encoding="utf-8")
        partial.replace(folder / NOTE)
