"""The reader of ``catalog.toml``, whose head explains its keys. A mistake in the file is a ValueError that names it."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edgeserve.jobs import INFO, Job
from edgeserve.models.entry import DECIMAL_MB, OPTIONS, Entry
from edgeserve.models.sources.source import HubSource

FILE = Path(__file__).with_name("catalog.toml")
NEEDED = {"name", "about", "licence", "hub", "files"}
OPTIONAL = {"megabytes", "parameters", "shape", "encoder", "convert", "options", "aliases"}
TAILS: Mapping[tuple[str, str], str] = {
    ("convert", "whisper"): ", converted from its CTranslate2 checkpoint when pulled",
    ("family", "piper"): "; needs edgeserve[piper], whose phonemizer is GPL",
}
"""Ends of descriptions that all models of a conversion or of a family share."""


def read(path: Path = FILE) -> Iterator[Entry]:
    """The entries, job by job. Raises ValueError and OSError."""
    with path.open("rb") as file:
        tables = tomllib.load(file)
    if unknown := set(tables) - set(INFO):
        raise ValueError(f"{path}: [[{min(unknown)}]] is no job; known: {', '.join(INFO)}")
    for job in INFO:
        yield from (_entry(job, row, path) for row in tables.get(job, ()))


def _entry(job: Job, row: Mapping[str, Any], path: Path) -> Entry:
    name = row.get("name", "a model without a name")
    if wrong := NEEDED - set(row) | set(row) - NEEDED - OPTIONAL | set(row.get("options", {})) - OPTIONS:
        raise ValueError(f"{path}: {name} lacks a key, or has one too many: {', '.join(sorted(wrong))}")
    repository, _, revision = row["hub"].partition("@")
    files = {role: (member, size, checksum) for role, member, size, checksum in row["files"]}
    sizes = {role: size for role, (_, size, _) in files.items() if size}
    if len(sizes) < len(files) and "megabytes" not in row:
        raise ValueError(f"{path}: {name} needs megabytes, since the bytes of a file are unknown")
    options = row.get("options", {})
    return Entry(
        name,
        job,
        row["about"] + _tail(row.get("convert", ""), options),
        row["licence"],
        sum(sizes.values()) if len(sizes) == len(files) else row["megabytes"] * DECIMAL_MB,
        (HubSource(repository, {role: member for role, (member, *_) in files.items()}, revision or "main"),),
        {role: checksum for role, (_, _, checksum) in files.items() if checksum},
        convert=row.get("convert", ""),
        options=options,
        aliases=tuple(row.get("aliases", ())),
        sizes=sizes,
        parameters=row.get("parameters", 0),
        shape=row.get("shape", {}),
        encoder=row.get("encoder", ""),
    )


def _tail(convert: str, options: Mapping[str, object]) -> str:
    return TAILS.get(("convert", convert), "") + TAILS.get(("family", str(options.get("family"))), "")
