"""Secrets that come as files of systemd."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeserve.config import load
from edgeserve.errors import ConfigError


def test_the_key_of_the_server_is_a_credential(tmp_path: Path) -> None:
    (tmp_path / "api_key").write_text("sesame\n")
    environ = {"CREDENTIALS_DIRECTORY": str(tmp_path)}
    assert load(environ).server.api_key == "sesame"
    assert load({**environ, "EDGESERVE_API_KEY": "other"}).server.api_key == "other"
    assert load({**environ, "EDGESERVE_API_KEY": ""}).server.api_key == "sesame", "an empty variable counts as unset"


def test_a_service_without_the_credential(tmp_path: Path) -> None:
    assert load({"CREDENTIALS_DIRECTORY": str(tmp_path)}).server.api_key == ""
    assert load({"CREDENTIALS_DIRECTORY": ""}).server.api_key == ""


def test_a_credential_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "api_key").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="api_key cannot be read: it is no UTF-8 text"):
        load({"CREDENTIALS_DIRECTORY": str(tmp_path)})
    (tmp_path / "api_key").unlink()
    (tmp_path / "api_key").mkdir()
    with pytest.raises(ConfigError, match="api_key cannot be read: Is a directory"):
        load({"CREDENTIALS_DIRECTORY": str(tmp_path)})
