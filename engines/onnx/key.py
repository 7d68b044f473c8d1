"""The key of a prepared ONNX model: its source files and its machine. The model is used while both are the same."""

from __future__ import annotations

import functools
import hashlib
import json
import platform
from collections.abc import Mapping, Sequence
from pathlib import Path

from edgeserve.dataclass import dataclass
from edgeserve.engines.onnx import session
from edgeserve.system import cpu

VERSION = 2
"""Version of the prepared files; raised when the preparation writes other files."""


@dataclass(frozen=True, slots=True)
class Machine:
    """``runtime``: version of ONNX Runtime. ``cpu``: digest of the processor's features, which decide the kernels."""

    runtime: str
    cpu: str
    version: int = VERSION


@functools.cache
def this_machine() -> Machine:
    digest = hashlib.sha256(cpu.identity().encode()).hexdigest()[:16]
    return Machine(session.version(), f"{platform.machine()} {digest}")


@dataclass(frozen=True, slots=True)
class Source:
    """One source file as it was when it was read."""

    size: int
    mtime_ns: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Key:
    """``sources``: by file name, the graph and the files of its weights."""

    machine: Machine
    sources: Mapping[str, Source]

    @classmethod
    def of(cls, files: Sequence[Path], machine: Machine) -> Key:
        """Reads every file. Raises OSError."""
        return cls(machine, {path.name: _source(path) for path in files})

    @property
    def digest(self) -> str:
        """The same for the same contents, whatever their times."""
        contents = {name: one.sha256 for name, one in self.sources.items()}
        text = json.dumps([self.machine.runtime, self.machine.cpu, self.machine.version, contents], sort_keys=True)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def again(self, files: Sequence[Path], machine: Machine) -> Key | None:
        """This key with the files' present times; None for another machine or other contents.

        A file is read again only when its time has changed. Raises OSError.
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
    with path.open("rb") as file:
        return Source(state.st_size, state.st_mtime_ns, hashlib.file_digest(file, "sha256").hexdigest())
