"""What a prepared ONNX model was made from, and for which machine: it serves while both are the same."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgeserve.system import cpu
from engines.onnx import session

VERSION = 2
"""Of what the preparation writes; raised when that changes."""
CHUNK = 1 << 20


@dataclass(frozen=True, slots=True)
class Machine:
    """``runtime``: version of ONNX Runtime; ``cpu``: digest of the features that kernels are chosen by."""

    runtime: str
    cpu: str
    version: int = VERSION


@functools.cache
def this_machine() -> Machine:
    digest = hashlib.sha256(cpu.identity().encode()).hexdigest()[:16]
    return Machine(session.version(), f"{platform.machine()} {digest}")


@dataclass(frozen=True, slots=True)
class Source:
    """One file that was read."""

    size: int
    mtime_ns: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Key:
    """``sources``: by file name; a graph and the files of its weights."""

    machine: Machine
    sources: Mapping[str, Source]

    @classmethod
    def of(cls, files: Sequence[Path], machine: Machine) -> Key:
        """Reads every file. Raises OSError."""
        return cls(machine, {path.name: _source(path) for path in files})

    @property
    def digest(self) -> str:
        """Equal for equal contents, whenever they were written."""
        contents = {name: one.sha256 for name, one in self.sources.items()}
        text = json.dumps([self.machine.runtime, self.machine.cpu, self.machine.version, contents], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def again(self, files: Sequence[Path], machine: Machine) -> Key | None:
        """The same key with the files' times of now; None when it is another machine or another content.

        Only files of another time are read again. Raises OSError.
        """
        if self.machine != machine or {path.name for path in files} != set(self.sources):
            return None
        now = {path.name: _again(path, self.sources[path.name]) for path in files}
        return Key(machine, {name: one for name, one in now.items() if one is not None}) if all(now.values()) else None


def _again(path: Path, known: Source) -> Source | None:
    state = path.stat()
    if (state.st_size, state.st_mtime_ns) == (known.size, known.mtime_ns):
        return known
    source = _source(path) if state.st_size == known.size else None
    return source if source and source.sha256 == known.sha256 else None


def _source(path: Path) -> Source:
    state = path.stat()
    return Source(state.st_size, state.st_mtime_ns, _sha256(path))


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(CHUNK):
            digest.update(chunk)
    return digest.hexdigest()
