"""What the store keeps about a pulled model, in a file that makes its folder a model."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from edgeserve.convert.conversions import CONVERSIONS
from edgeserve.errors import ModelMissing
from edgeserve.sources.source import sha256_of
from edgeserve.wanted import Wanted

FILE = "manifest.json"

Manifest = Mapping[str, Any]


def read(folder: Path) -> Manifest:
    """Raises ModelMissing naming the command that pulls the model."""
    try:
        found: Manifest = json.loads((folder / FILE).read_text(encoding="utf-8"))
    except FileNotFoundError:
        name = folder.name
        raise ModelMissing(f"{name} is not on this device; fetch it with `edgeserve pull {name}`") from None
    return found


def outdated(manifest: Manifest) -> bool:
    """Whether another version converted the model, to files that the engine of this one does not read."""
    converted = "format" in manifest or {"encoder", "cross", "decoder"} <= set(manifest["files"])
    conversion = CONVERSIONS.get(manifest.get("convert", "whisper"))  # there was only one before it was written down
    return converted and (conversion is None or manifest.get("format") != conversion.FORMAT)


def write(folder: Path, wanted: Wanted, files: Mapping[str, Path], source: str) -> None:
    """Names, sizes and checksums of the files, and what is known of the model; on the disk when this returns."""
    manifest = {
        "name": wanted.name,
        "job": wanted.job,
        "engine": wanted.engine,
        "licence": wanted.licence,
        "source": source,
        "options": dict(wanted.options),
        **({"convert": wanted.convert, "format": CONVERSIONS[wanted.convert].FORMAT} if wanted.convert else {}),
        "files": {
            role: {"name": path.name, "size": path.stat().st_size, "sha256": sha256_of(path)}
            for role, path in files.items()
        },
    }
    with (folder / FILE).open("w", encoding="utf-8") as out:
        json.dump(manifest, out, indent=1)
        out.flush()
        os.fsync(out.fileno())
