"""Secrets in the settings: how they are printed, and who else can read the file that holds them."""

from __future__ import annotations

import re
import stat
from collections.abc import Iterator
from pathlib import Path

from edgeserve.config import Config
from edgeserve.models.sources.source import UrlSource

ADDRESS = re.compile(r"https?://", re.IGNORECASE)
OTHERS_READ = stat.S_IRGRP | stat.S_IROTH


def shown(model: str) -> str:
    """A model's name as it may be printed: an address without credentials and query."""
    try:
        return str(UrlSource(model)) if ADDRESS.match(model) else model
    except ValueError:
        return "an address that cannot be read"


def warnings(config: Config) -> Iterator[str]:
    """One line for a file that holds secrets in use, and that other users of this machine can read."""
    path = Path(config.source)
    if not path.is_file() or not (mode := stat.S_IMODE(path.stat().st_mode)) & OTHERS_READ:
        return
    written = path.read_text(encoding="utf-8")
    values = {"api_key": config.server.api_key}
    values |= {f"[{job}] model": one.model for job, one in config.engines.items() if shown(one.model) != one.model}
    held = [name for name, value in values.items() if value and any(f"{q}{value}{q}" in written for q in "\"'")]
    if held:
        yield f"{path} holds secrets ({', '.join(held)}), and others may read it (mode {mode:03o}): chmod 600 {path}"
