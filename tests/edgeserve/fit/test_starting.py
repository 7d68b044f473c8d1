"""The models.toml of a new machine: the server's own reader reads it."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeserve.config import Config, load
from edgeserve.fit.starting import Chosen, settings


def read(tmp_path: Path, text: str) -> Config:
    path = tmp_path / "models.toml"
    path.write_text(text)
    return load({}, path=path)


def test_models_are_in_their_tables_with_their_words_beside(tmp_path: Path) -> None:
    text = settings([Chosen("llm", "small", "1.1 GB, 12 tokens/s"), Chosen("tts", "voice")], "this box")
    found = read(tmp_path, text)
    assert {name: one.model for name, one in found.models.items()} == {"llm": "small", "tts": "voice"}
    assert "# Written by `edgeserve init` for this box." in text
    (line,) = (line for line in text.splitlines() if line.startswith('model = "small"'))
    assert line.endswith("# 1.1 GB, 12 tokens/s")


def test_without_a_key_no_other_machine_is_let_in(tmp_path: Path) -> None:
    found = read(tmp_path, settings([Chosen("tts", "voice")], "this box"))
    assert (found.server.host, found.server.api_key) == ("127.0.0.1", "")
    found = read(tmp_path, settings([Chosen("tts", "voice")], "this box", key="a-b_c"))
    assert (found.server.host, found.server.api_key) == ("0.0.0.0", "a-b_c")


@pytest.mark.parametrize("name", ['say "hello"', "back\\slash", "hub:owner/repo/file.gguf@main", "näme"])
def test_any_name_comes_back_as_it_is(tmp_path: Path, name: str) -> None:
    assert read(tmp_path, settings([Chosen("tts", name)], "this box")).models["tts"].model == name
