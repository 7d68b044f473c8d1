"""Secrets in the settings: their printed form, and a warning when other users may read the file."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path

from edgeserve.config import Config
from edgeserve.jobs import table_of
from edgeserve.models.sources.source import UrlSource

ADDRESS = re.compile(r"https?://", re.IGNORECASE)
OTHERS_READ = stat.S_IRGRP | stat.S_IROTH


def shown(model: str) -> str:
    """A model's name without the credentials and the query of an address."""
    try:
        return str(UrlSource(model)) if ADDRESS.match(model) else model
    except ValueError:
        return "an address that cannot be read"


def warnings(config: Config) -> Iterator[str]:
    """A warning when the file holds secrets in use and other users of this machine may read it."""
    path = Path(config.source)
    if not path.is_file() or not (mode := stat.S_IMODE(path.stat().st_mode)) & OTHERS_READ:
        return
    written = path.read_text(encoding="utf-8")
    values = {"api_key": config.server.api_key}
    values |= {
        f"[{table_of(model)}] model": one.model for model, one in config.models.items() if shown(one.model) != one.model
    }
    held = [name for name, value in values.items() if value and any(f"{q}{value}{q}" in written for q in "\"'")]
    if held:
        yield f"{path} holds secrets ({', '.join(held)}), and others may read it (mode {mode:03o}): chmod 600 {path}"
