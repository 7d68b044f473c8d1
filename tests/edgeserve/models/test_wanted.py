"""Meanings of names: models for MLX, recognised by their files."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeserve.errors import StoreError
from edgeserve.jobs import INFO, MLX_WHISPER
from edgeserve.models import catalog, wanted
from edgeserve.models.sources import hub


@pytest.mark.parametrize("weights", ["weights.safetensors", "weights.npz"])
def test_a_folder_with_mlx_weights_is_used_in_place(tmp_path: Path, weights: str) -> None:
    folder = tmp_path / "Whisper Turbo"
    folder.mkdir()
    for name in (weights, "config.json"):
        (folder / name).touch()
    found = wanted.understand(str(folder))
    assert (found.name, found.job, found.engine) == ("whisper-turbo", "asr", MLX_WHISPER)
    assert found.here == {"weights": folder / weights, "config": folder / "config.json"}
    (folder / "config.json").unlink()
    with pytest.raises(StoreError, match="MLX weights"):
        wanted.understand(str(folder))


def test_a_repository_with_mlx_weights_is_taken_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    there = ["README.md", "config.json", "weights.npz"]
    monkeypatch.setattr(hub, "list_files", lambda repository, revision: there)
    found = wanted.understand("hub:mlx-community/whisper-medium-mlx@v2")
    assert (found.name, found.engine, found.convert) == ("whisper-medium-mlx", MLX_WHISPER, "")
    (source,) = found.sources
    assert (source.members, source.revision) == ({"weights": "weights.npz", "config": "config.json"}, "v2")  # type: ignore[union-attr]
    there.remove("weights.npz")
    with pytest.raises(StoreError, match=r"lacks model\.bin.*nor one for MLX \(weights\.safetensors or"):
        wanted.understand("hub:mlx-community/whisper-medium-mlx")


def test_a_repository_does_not_take_the_name_of_a_catalogue_model() -> None:
    assert wanted.understand("hub:mlx-community/whisper-tiny", offline=True).name == "mlx-community-whisper-tiny"
    assert wanted.understand("hub:mlx-community/whisper-turbo", offline=True).name == "whisper-turbo"


def test_every_whisper_of_the_catalogue_can_be_had_for_mlx() -> None:
    plain = [entry for entry in catalog.MODELS.values() if entry.convert == "whisper"]
    assert len(plain) >= 6
    for entry in plain:
        found = wanted.understand(f"{entry.name}-mlx")
        assert (found.engine, found.convert) == (MLX_WHISPER, "whisper_mlx")
        assert found.sources == entry.sources
        assert found.checksums == entry.checksums
        assert catalog.find(entry.name).engine == INFO["asr"].engine
