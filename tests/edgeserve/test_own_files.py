"""Places of the server's own files."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeserve.config import load
from edgeserve.errors import ConfigError
from edgeserve.models.store import Store
from edgeserve.own_files import certificate_paths, keys_path, tls_folder

STORE = Store(Path("/data/models"))


def test_they_lie_beside_the_models() -> None:
    assert keys_path(load({}), STORE) == Path("/data/keys.json")
    assert tls_folder(STORE) == Path("/data/tls")


def test_files_that_the_settings_name() -> None:
    config = load({"EDGESERVE_KEYS_FILE": "/k", "EDGESERVE_TLS_CERT": "~/c", "EDGESERVE_TLS_KEY": "/key"})
    assert keys_path(config, STORE) == Path("/k")
    assert certificate_paths(config) == (Path("~/c").expanduser(), Path("/key"))
    assert certificate_paths(load({"EDGESERVE_TLS_CERT": "/c"})) == (Path("/c"), None)


def test_a_home_that_nobody_has() -> None:
    with pytest.raises(ConfigError, match="keys_file = '~nobody-here/k': this home folder is unknown"):
        keys_path(load({"EDGESERVE_KEYS_FILE": "~nobody-here/k"}), STORE)
