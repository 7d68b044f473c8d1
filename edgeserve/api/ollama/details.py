"""A model as lists describe it: the figures of its files, in Ollama's words."""

from __future__ import annotations

import functools
import hashlib
import importlib
import logging
from collections.abc import Iterator, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from edgeserve.api.ollama.names import shown
from edgeserve.api.ollama.times import written
from edgeserve.dataclass import dataclass
from edgeserve.engine import ModelSpec
from edgeserve.engine_abilities import ModelFacts
from edgeserve.errors import EdgeserveError, StoreError
from edgeserve.jobs import CHAT, PICTURES
from edgeserve.memory.history import quantization
from edgeserve.models import manifest
from edgeserve.residency.aside import Aside
from edgeserve.system.stamps import Stamp, stamps

log = logging.getLogger("edgeserve.api")

LOOKS = Aside("looks at models", threads=1)
"""The figures of a model stand in its files; reading a vocabulary's header takes some ten milliseconds."""
UNITS = ((10**9, "B", 1), (10**6, "M", 2), (10**3, "K", 0))
FAMILY = "unknown"


@dataclass(frozen=True, slots=True)
class _Files:
    """Files of a model as they are now: the key of what was read from them."""

    engine: str
    found: tuple[tuple[Path, Stamp], ...]
    options: str
    spec: ModelSpec = field(compare=False, hash=False)


def facts(spec: ModelSpec) -> ModelFacts:
    """The facts of a model, read once for each state of its files. Reads the disk. Any thread."""
    found = tuple(stamps(spec.files.values()).items())
    return _facts(_Files(spec.engine, found, repr(sorted(spec.options.items())), spec))


@functools.lru_cache(maxsize=64)
def _facts(files: _Files) -> ModelFacts:
    spec = files.spec
    read = getattr(importlib.import_module(spec.engine.partition(":")[0]), "facts", None)
    if read is not None:
        try:
            found: ModelFacts = read(spec)
            return found
        except EdgeserveError as error:  # the list of all models must not fail for a damaged one
            log.warning("%s cannot be described: %s", spec.name, error.message)
    return ModelFacts(form=_main(spec).suffix.removeprefix("."))


def described(spec: ModelSpec, name: str = "", parent: str = "") -> dict[str, Any]:
    """An entry of ``GET /api/tags``. ``name``: of an adapter of the model ``parent``. Reads the disk."""
    name = shown(name or spec.name)
    return {
        "name": name,
        "model": name,
        "modified_at": modified(spec),
        "size": spec.size_bytes,
        "digest": digest(spec),
        "details": details(spec, parent),
        "capabilities": capabilities(spec),
    }


def details(spec: ModelSpec, parent: str = "") -> dict[str, Any]:
    found = facts(spec)
    family = found.family or FAMILY
    lengths = {"context_length": found.context, "embedding_length": found.width}
    return {
        "parent_model": parent,
        "format": found.form,
        "family": family,
        "families": [family],
        "parameter_size": size(found.parameters),
        "quantization_level": found.quantization or quantization(spec),
        **{name: number for name, number in lengths.items() if number},
    }


def capabilities(spec: ModelSpec) -> list[str]:
    """Ollama's words for the model's abilities. Every chat model has tools: the server describes them to it."""
    if spec.job == "embedding":
        return ["embedding"]
    if spec.job not in CHAT:
        return []
    more = [one for one in ("insert", "thinking") if one in facts(spec).abilities]
    return ["completion", "tools", *(["vision"] if spec.job in PICTURES else []), *more]


def info(spec: ModelSpec) -> dict[str, Any]:
    """``model_info`` of ``POST /api/show``: the metadata of the file, without its lists."""
    found = facts(spec)
    family = found.family or FAMILY
    own: dict[str, Any] = {"general.architecture": family}
    numbers = {
        "general.parameter_count": found.parameters,
        f"{family}.context_length": found.context,
        f"{family}.embedding_length": found.width,
    }
    return own | {name: number for name, number in numbers.items() if number} | dict(found.entries)


def modified(spec: ModelSpec) -> str:
    times = [path.stat().st_mtime for path in spec.files.values() if path.is_file()]
    return written(max(times, default=0.0))


def digest(spec: ModelSpec) -> str:
    """64 hexadecimal digits: the checksum of the main file where the store wrote one, else of the files' stamps."""
    stored = _manifest(spec)
    if stored is not None:
        checksums = [one.sha256 for one in stored.files.values() if one.name == _main(spec).name]
        if checksums and len(checksums[0]) == 64:
            return checksums[0]
    return hashlib.sha256(repr((spec.engine, *_stamped(spec))).encode()).hexdigest()


def licence(spec: ModelSpec) -> str:
    """The licence that the store knows; empty for a model that it does not."""
    stored = _manifest(spec)
    return stored.licence if stored is not None else ""


def size(parameters: int) -> str:
    """4300000000 as "4.3B"; empty where the number is unknown."""
    for unit, letter, digits in UNITS:
        if parameters >= unit:
            return f"{parameters / unit:.{0 if parameters % unit == 0 else digits}f}{letter}"
    return str(parameters) if parameters else ""


def _main(spec: ModelSpec) -> Path:
    """The file with the weights: "model", else the largest."""
    files: Mapping[str, Path] = spec.files
    if "model" in files:
        return files["model"]
    there = [path for path in files.values() if path.is_file()]
    return max(there, key=lambda path: path.stat().st_size, default=Path())


def _manifest(spec: ModelSpec) -> manifest.Manifest | None:
    try:
        return manifest.read(_main(spec).parent)
    except StoreError:  # a file used in place
        return None


def _stamped(spec: ModelSpec) -> Iterator[tuple[str, str, Stamp]]:
    for role, path in sorted(spec.files.items()):
        yield role, path.name, stamps([path])[path]
