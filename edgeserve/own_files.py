"""Places of the server's own files: its keys and its certificate, beside the folder of models."""

from __future__ import annotations

from pathlib import Path

from edgeserve.config import Config
from edgeserve.keys.file import NAME_OF_FILE
from edgeserve.models.folder import expanded
from edgeserve.models.store import Store


def keys_path(config: Config, store: Store) -> Path:
    """The file of keys, which need not be there. Raises ConfigError for an unknown home."""
    named = config.server.keys_file
    return expanded(named, config.label("server", "keys_file")) if named else store.root.parent / NAME_OF_FILE


def tls_folder(store: Store) -> Path:
    """The folder of the certificate that the server makes for itself."""
    return store.root.parent / "tls"


def certificate_paths(config: Config) -> tuple[Path, Path | None]:
    """The named certificate, and its key where that is in a file of its own. Raises ConfigError for an unknown home."""
    cert, key = (
        expanded(named, config.label("server", name)) if (named := getattr(config.server, name)) else None
        for name in ("tls_cert", "tls_key")
    )
    return cert or Path(), key
