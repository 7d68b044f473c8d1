"""Secrets in the settings are not printed, and a file that others can read causes a warning."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.cases import each

from edgeserve import exposure
from edgeserve.commands.serve import greeting
from edgeserve.config import load
from edgeserve.model_settings import ModelSettings

SECRET = "https://ada:s3cret@models.example.org:8443/a/b.gguf?token=s3cret&x=1#s3cret"


@each(
    ("model", "shown"),
    [
        (SECRET, "https://models.example.org:8443/a/b.gguf"),
        ("HTTP://s3cret@example.org/b.gguf?s3cret", "http://example.org/b.gguf"),
        ("https://a@b:s3cret@example.org/b.gguf", "https://example.org/b.gguf"),
        ("https://s3cret@[::1/b.gguf", "an address that cannot be read"),
        ("hub:owner/name/file.gguf@main", "hub:owner/name/file.gguf@main"),
        ("./models/b.gguf", "./models/b.gguf"),
    ],
)
def test_an_address_is_shown_without_credentials(model: str, shown: str) -> None:
    assert exposure.shown(model) == shown


def test_the_greeting_shows_no_token() -> None:
    text = "\n".join(greeting(load({}, flags={"LLM": SECRET}), "http://127.0.0.1:1"))
    assert "models.example.org:8443/a/b.gguf" in text
    assert "s3cret" not in text


@pytest.mark.parametrize(
    ("mode", "text", "held"),
    [
        (0o644, '[server]\napi_key = "sesame"\n', "api_key"),
        (0o640, "[server]\napi_key = 'sesame'\n", "api_key"),
        (0o604, f'[llm]\nmodel = "{SECRET}"\n', "[llm] model"),
        (0o644, f'[server]\napi_key = "sesame"\n[llm]\nmodel = "{SECRET}"\n', "api_key, [llm] model"),
        (0o600, '[server]\napi_key = "sesame"\n', ""),
        (0o400, '[server]\napi_key = "sesame"\n', ""),
        (0o644, '[server]\napi_key = ""\n[llm]\nmodel = "https://example.org/b.gguf"\n', ""),
    ],
)
def test_a_readable_file_with_secrets_is_warned_about(tmp_path: Path, mode: int, text: str, held: str) -> None:
    path = tmp_path / "models.toml"
    path.write_text(text)
    path.chmod(mode)
    lines = list(exposure.warnings(load({}, path=path)))
    told = f"{path} holds secrets ({held}), and others may read it (mode {mode:03o}): chmod 600 {path}"
    assert lines == ([told] if held else [])
    assert "sesame" not in told


def test_secrets_of_the_environment_are_not_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "models.toml"
    path.write_text('[server]\napi_key = "old"\n')
    path.chmod(0o644)
    config = load({"EDGESERVE_API_KEY": "sesame"}, path=path, flags={"LLM": SECRET})
    assert config.models["llm"] == ModelSettings(model=SECRET)
    assert list(exposure.warnings(config)) == []
    assert list(exposure.warnings(load({}))) == [], "defaults are no file"
