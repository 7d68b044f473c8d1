"""A store without a network, and a server of model files."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.http_files import Files, serving_files
from support.store import GGUF, ONNX

from edgeserve.models import catalog, partial
from edgeserve.models.sources import package
from edgeserve.models.store import Store


@pytest.fixture
def files() -> Iterator[Files]:
    with serving_files() as files:
        for name in ("one", "two", "hibari", "whisper", "starter"):
            files.data[f"/{name}.gguf"] = GGUF
        yield files


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """An empty store, where nothing comes with a model unasked, and hibari comes without a network."""
    monkeypatch.setattr(catalog, "COMPANIONS", {})

    def fetch(source: object, into: Path, report: object, size: int) -> dict[str, Path]:
        (into / "hibari.onnx").write_bytes(ONNX)
        return {"model": into / "hibari.onnx"}

    monkeypatch.setattr(package, "fetch", fetch)
    monkeypatch.setattr(partial, "check", lambda *ignored: None)
    monkeypatch.setattr("edgeserve.models.store.prepare", lambda *ignored: None)
    return Store(tmp_path / "models")
