"""The folder that holds the models of this device."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path

from edgeserve.errors import ConfigError


def expanded(folder: str, setting: str) -> Path:
    """The path with "~" replaced by the home folder. Raises ConfigError, naming the setting, for an unknown home."""
    try:
        return Path(folder).expanduser()
    except RuntimeError:
        raise ConfigError(f"{setting} = {folder!r}: this home folder is unknown; write the whole path") from None


def default_root(environ: Mapping[str, str]) -> Path:
    """$EDGESERVE_MODELS_DIR, else a folder in the user's data folder. Raises ConfigError."""
    if named := environ.get("EDGESERVE_MODELS_DIR"):
        return expanded(named, "EDGESERVE_MODELS_DIR")
    home = expanded(environ.get("HOME") or "~", "HOME")
    if sys.platform == "darwin":
        return home / "Library" / "Application Support" / "edgeserve" / "models"
    return Path(environ.get("XDG_DATA_HOME") or home / ".local" / "share") / "edgeserve" / "models"
