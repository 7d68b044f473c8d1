"""The manifest of a pulled model: a file that makes its folder a model.

The file may be cut, empty, changed or forged. The reader accepts only a manifest that the store could have written.
Its engine is in the catalogue's table, the catalogue uses its options, and its files lie in the folder.
"""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, cast

from edgeserve.dataclass import dataclass
from edgeserve.errors import ModelDamaged, ModelMissing
from edgeserve.jobs import INFO
from edgeserve.models import disk
from edgeserve.models.convert.conversions import CONVERSIONS
from edgeserve.models.entry import FORMER, OPTIONS, RUNNERS
from edgeserve.models.sources.checksum import sha256_of
from edgeserve.models.sources.source import inside
from edgeserve.models.wanted import Kind, Wanted, mending

FILE = "manifest.json"
MAX_BYTES = 1 << 20
ROLE = re.compile(r"[A-Za-z0-9_.-]{1,64}")
CHECKSUM = re.compile(r"[0-9a-f]{1,64}")
NEEDED: Mapping[str, tuple[frozenset[str], ...]] = MappingProxyType(
    {job: one.files for job, one in INFO.items()} | {"vad": (frozenset({"vad"}),)}
)
"""Sets of file roles by kind; a model has all files of at least one set."""


@dataclass(frozen=True, slots=True)
class StoredFile:
    """One file. ``name`` inside the model's folder; ``size`` in bytes."""

    name: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """A manifest. ``files`` by role; ``convert`` and ``format`` of the conversion, None without one."""

    job: Kind
    engine: str
    licence: str
    source: str
    options: Mapping[str, object]
    files: Mapping[str, StoredFile]
    convert: str | None = None
    format: int | None = None

    @property
    def size_bytes(self) -> int:
        return sum(one.size for one in self.files.values())

    @property
    def outdated(self) -> bool:
        """Whether another version converted the model to files that this engine does not read."""
        converted = self.format is not None or {"encoder", "cross", "decoder"} <= set(self.files)
        conversion = CONVERSIONS.get(self.convert or "whisper")  # version 0.1 had one conversion and stored no name
        return converted and (conversion is None or self.format != conversion.format)


def read(folder: Path) -> Manifest:
    """Read a model's manifest. Raises ModelMissing and ModelDamaged, each with the command that mends it."""
    name, path = folder.name, folder / FILE
    try:
        if path.exists() and not path.is_file():
            raise ValueError("it is no plain file")
        with path.open("rb") as file:
            return parse(file.read(MAX_BYTES + 1))
    except (FileNotFoundError, NotADirectoryError):
        raise ModelMissing(f"{name} is not on this device; fetch it with `edgeserve pull {name}`") from None
    except OSError as error:
        raise ModelDamaged(f"{path} cannot be read: {error.strerror}; {mending(name)}") from error
    except ValueError as error:
        raise ModelDamaged(f"{path} is damaged: {error}; {mending(name)}") from error


def parse(data: bytes) -> Manifest:
    """Check a manifest's bytes. Raises ValueError with the fault."""
    if not data.strip():
        raise ValueError("it is empty")
    if len(data) > MAX_BYTES:
        raise ValueError(f"it is larger than {MAX_BYTES >> 10} KB")
    try:
        found = json.loads(data)
    except RecursionError:
        raise ValueError("it is nested too deep") from None
    if not isinstance(found, dict):
        raise ValueError("it holds no JSON object")
    job, engine = _text(found, "job"), _text(found, "engine")
    engine = FORMER.get(engine, engine)
    if engine not in RUNNERS.get(job, ()):
        raise ValueError(f"{engine!r} is no engine for {job!r}")
    form = found.get("format")
    if form is not None and (not isinstance(form, int) or isinstance(form, bool)):
        raise ValueError("its format is no number")
    return Manifest(
        cast(Kind, job),
        engine,
        _text(found, "licence"),
        _text(found, "source"),
        _options(found.get("options")),
        _files(found.get("files"), job),
        _text(found, "convert") if "convert" in found else None,
        form,
    )


def _text(found: Mapping[str, Any], key: str) -> str:
    value = found.get(key)
    if not isinstance(value, str):
        raise ValueError(f"its {key} is no text")
    return value


def _options(found: object) -> Mapping[str, object]:
    if not isinstance(found, dict):
        raise ValueError("its options are no object")
    for key, value in found.items():
        if key not in OPTIONS:
            raise ValueError(f"{key!r} is no option of a catalogue model")
        if not isinstance(value, str | int | float) or (isinstance(value, float) and not math.isfinite(value)):
            raise ValueError(f"its option {key} is neither text nor number")
    return found


def _files(found: object, job: str) -> Mapping[str, StoredFile]:
    if not isinstance(found, dict):
        raise ValueError("its files are no object")
    if not any(needed <= set(found) for needed in NEEDED[job]):
        raise ValueError(f"it lists no file {' or '.join(' and '.join(sorted(one)) for one in NEEDED[job])}")
    return {role: _file(role, one) for role, one in found.items()}


def _file(role: str, found: object) -> StoredFile:
    if not ROLE.fullmatch(role):
        raise ValueError(f"{role!r} is no role of a file")
    if not isinstance(found, dict):
        raise ValueError(f"its file {role} is no object")
    name, size, checksum = _text(found, "name"), found.get("size"), _text(found, "sha256")
    if not inside(name) or name == FILE:
        raise ValueError(f"its file {role} has the name {name!r}, which is none of a file in the folder")
    if not isinstance(size, int) or isinstance(size, bool) or not 0 <= size < 1 << 63:
        raise ValueError(f"the size of its file {role} is no number of bytes")
    if not CHECKSUM.fullmatch(checksum):
        raise ValueError(f"the checksum of its file {role} is none")
    return StoredFile(name, size, checksum)


def files_in(folder: Path, manifest: Manifest) -> dict[str, Path]:
    """Files by role. Raises ModelDamaged for a file that is gone, has another size, or is a link elsewhere."""
    here = os.path.realpath(folder)
    files = {role: folder / one.name for role, one in manifest.files.items()}
    for role, path in files.items():
        try:
            whole = path.is_file() and path.stat().st_size == manifest.files[role].size
        except OSError:  # a failing disk
            whole = False
        mend = mending(folder.name, manifest.source)
        if not whole:
            raise ModelDamaged(f"{path} is damaged or gone; {mend}")
        if os.path.dirname(os.path.realpath(path)) != here:
            raise ModelDamaged(f"{path} is a link out of the model's folder; {mend}")
    return files


def write(folder: Path, wanted: Wanted, files: Mapping[str, Path], source: str, sync: disk.Sync = disk.sync) -> None:
    """Write a manifest with names, sizes and checksums of the files. Raises OSError.

    The files are synced first: a manifest on the disk means that its files are there, too.
    """
    manifest = {
        "name": wanted.name,
        "job": wanted.job,
        "engine": wanted.engine,
        "licence": wanted.licence,
        "source": source,
        "options": dict(wanted.options),
        **({"convert": wanted.convert, "format": CONVERSIONS[wanted.convert].format} if wanted.convert else {}),
        "files": {
            role: {"name": path.name, "size": path.stat().st_size, "sha256": sha256_of(path)}
            for role, path in files.items()
        },
    }
    for path in files.values():
        sync(path)
    disk.write(folder / FILE, json.dumps(manifest, indent=1), sync)
