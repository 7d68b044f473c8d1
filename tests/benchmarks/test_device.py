"""The store of a device under measurement."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import device
from support import store


def test_models_of_any_source_are_linked_one_call_after_the_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = tmp_path / "kept"
    for name in ("one", "two"):
        store.pulled(kept, name)
    monkeypatch.setenv("EDGESERVE_MODELS_DIR", str(kept))
    for name in ("one", "two"):
        root, stored = device.linked(tmp_path / "device", [name])
        assert list(stored) == [name]
    assert sorted(path.name for path in root.iterdir()) == ["one", "two"]
