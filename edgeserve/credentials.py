"""Secrets that systemd hands to a service as files (systemd.exec(5), ``LoadCredential``)."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from edgeserve.errors import ConfigError

FOLDER = "CREDENTIALS_DIRECTORY"
VARIABLES: Mapping[str, str] = MappingProxyType({"api_key": "EDGESERVE_API_KEY"})
"""Variable that a credential stands for, by the credential's name."""


def with_credentials(environ: Mapping[str, str]) -> Mapping[str, str]:
    """The variables, with the credentials of this service in place of those that are not set.

    Raises ConfigError for a credential that cannot be read.
    """
    folder = environ.get(FOLDER)
    if not folder:
        return environ
    found = {variable: _read(Path(folder) / name) for name, variable in VARIABLES.items() if not environ.get(variable)}
    return {**environ, **{variable: text for variable, text in found.items() if text}}


def _read(path: Path) -> str:
    """The text of a credential without the line end that editors write; empty where there is none."""
    try:
        return path.read_text(encoding="utf-8").rstrip("\r\n")
    except FileNotFoundError:
        return ""
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no UTF-8 text"
        raise ConfigError(f"the credential {path} cannot be read: {reason}") from None
