"""The removal of conversations on disk when the server starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeserve import conversations
from edgeserve.engine import ModelSpec


def test_each_folder_is_swept_once_with_the_models_that_keep_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    swept: list[tuple[Path, set[str]]] = []
    monkeypatch.setattr(conversations, "find", lambda name: lambda root, off: swept.append((root, off)))
    options: dict[str, dict[str, object]] = {
        "llm": {"prefix_cache_dir": "/a"},
        "off": {"prefix_cache_dir": "/a", "prefix_cache_disk_mb": 0},
        "auto": {"prefix_cache_dir": "/a", "prefix_cache_disk_mb": "auto"},
        "elsewhere": {"prefix_cache_dir": "/b", "prefix_cache_disk_mb": 7},
        "tts": {},
    }
    conversations.sweep(ModelSpec("llm", name, "x:X", options=given, id=name) for name, given in options.items())
    assert swept == [(Path("/a"), {"off"}), (Path("/b"), set())]


def test_what_sweeps_is_there(tmp_path: Path) -> None:
    state = tmp_path / ".shared" / "llm" / "x-y.state"
    state.parent.mkdir(parents=True)
    state.touch()
    options = {"prefix_cache_dir": str(tmp_path), "prefix_cache_disk_mb": 0}
    conversations.sweep([ModelSpec("llm", "x", "x:X", options=options)])
    assert not state.exists()
