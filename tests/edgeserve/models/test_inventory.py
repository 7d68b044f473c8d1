"""Pulled models as their manifests list them: damaged, of another source, or converted by an older version."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support import tiny_whisper
from support.http_files import Files
from support.store import ONNX, left

from edgeserve.errors import (
    ModelDamaged,
    ModelMissing,
    SourceUnavailable,
    StoreError,
)
from edgeserve.models import catalog
from edgeserve.models.convert.conversions import CONVERSIONS
from edgeserve.models.sources import package
from edgeserve.models.store import Store, StoredModel


def claim(stored: StoredModel, **changes: object) -> None:
    path = stored.files["model"].with_name("manifest.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def empty(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(b"")


def cut(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_bytes(path.read_bytes()[:40])


def lose(folder: Path) -> None:
    next(folder.glob("*.onnx")).unlink()


def shorten(folder: Path) -> None:
    next(folder.glob("*.onnx")).write_bytes(b"short")


def turn(folder: Path) -> None:
    """Into a model of another job."""
    path = folder / "manifest.json"
    found = json.loads(path.read_text()) | {"job": "llm", "engine": "edgeserve.engines.llama.chat:LlamaChat"}
    path.write_text(json.dumps(found))


DAMAGE = [cut, empty, lose, shorten]


@pytest.mark.parametrize("damage", [*DAMAGE, turn])
def test_a_damaged_model_names_its_repair_and_hurts_no_other(
    models: Store, files: Files, damage: Callable[[Path], None]
) -> None:
    whole, stored = models.pull(f"{files.url}/one.gguf"), models.pull("hibari")
    damage(models.root / "hibari")
    with pytest.raises(ModelDamaged, match=r"models/hibari/.*`edgeserve pull hibari` mends it"):
        models.find("hibari")
    if damage is not turn:
        assert models.list() == (whole,)
        assert list(models.damaged()) == ["hibari"]
    assert models.pull("hibari") == stored
    assert models.find("hibari") == stored
    assert models.list() == (stored, whole)
    assert left(models) == ["hibari", "one"]


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_model_is_removed(models: Store, damage: Callable[[Path], None]) -> None:
    models.pull("hibari")
    damage(models.root / "hibari")
    models.remove("hibari")
    assert left(models) == []


def test_a_damaged_model_from_an_address_names_what_brings_it_again(models: Store, files: Files) -> None:
    stored = models.pull(f"{files.url}/one.gguf")
    stored.files["model"].unlink()
    with pytest.raises(ModelDamaged, match=rf"`edgeserve remove one`, then `edgeserve pull {files.url}/one.gguf`"):
        models.find("one")
    assert models.pull(f"{files.url}/one.gguf") == stored
    empty(models.root / "one")
    with pytest.raises(ModelDamaged, match="`edgeserve remove one`, then pull it again"):
        models.find("one")
    models.remove("one")
    assert left(models) == []


def test_a_failed_repair_keeps_the_old_files(models: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    models.pull("hibari")
    empty(models.root / "hibari")

    def fails(*ignored: object) -> dict[str, Path]:
        raise SourceUnavailable("no network")

    monkeypatch.setattr(package, "fetch", fails)
    with pytest.raises(SourceUnavailable):
        models.pull("hibari")
    assert left(models) == ["hibari"]
    assert (models.root / "hibari" / "hibari.onnx").exists()


def test_a_damaged_detector_is_reported_and_pulled_again(
    tmp_path: Path, models: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "COMPANIONS", {"asr": {"vad": "silero-vad"}})

    def fetch(source: object, into: Path, report: object, size: int) -> dict[str, Path]:
        (into / "vad.onnx").write_bytes(ONNX)
        return {"vad": into / "vad.onnx"}

    monkeypatch.setattr(package, "fetch", fetch)
    checkpoint = str(tiny_whisper.build(tmp_path / "tiny"))
    stored = models.pull(checkpoint)
    empty(models.root / "silero-vad")
    assert models.lacking("tiny") == ("silero-vad",)
    with pytest.raises(ModelDamaged, match="`edgeserve pull silero-vad`"):
        models.find("tiny")
    assert models.pull(checkpoint) == stored


def test_a_folder_with_an_impossible_name_is_damage(models: Store) -> None:
    models.pull("hibari")
    shutil.copytree(models.root / "hibari", models.root / "My Voice")
    assert [one.name for one in models.list()] == ["hibari"]
    assert "rename or remove the folder" in models.damaged()["My Voice"].message


def test_a_store_that_is_a_file_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "models").touch()
    store = Store(tmp_path / "models")
    assert store.list() == ()
    assert store.leftovers() == ()
    for use in (store.pull, store.remove, store.find):
        with pytest.raises(StoreError):
            use("hibari")


def test_a_catalogue_name_stored_for_an_address_is_an_error(models: Store) -> None:
    stored = models.pull("hibari")
    claim(stored, source="https://models.invalid/hibari.gguf")
    with pytest.raises(StoreError, match=r"came from https://models\.invalid/hibari\.gguf; `edgeserve remove hibari`"):
        models.find("hibari")
    models.remove("hibari")
    assert models.pull("hibari") == stored


def test_two_files_of_one_name_are_not_taken_for_each_other(models: Store, files: Files) -> None:
    files.data["/other/one.gguf"] = other = b"GGUF" + bytes(10)
    models.pull(f"{files.url}/one.gguf")
    for use in (models.pull, models.find):
        with pytest.raises(StoreError, match=r"one is here, but it came from .*/one\.gguf; `edgeserve remove one`"):
            use(f"{files.url}/other/one.gguf")
    models.remove("one")
    assert models.pull(f"{files.url}/other/one.gguf").files["model"].read_bytes() == other


def as_older_version(stored: StoredModel) -> None:
    """As it was before conversions were numbered."""
    path = stored.files["config"].with_name("manifest.json")
    manifest = json.loads(path.read_text(encoding="utf-8"))
    assert manifest.pop("format") == CONVERSIONS["whisper"].format
    path.write_text(json.dumps(manifest), encoding="utf-8")


@pytest.mark.slow
def test_a_model_that_an_older_version_converted_is_converted_again(models: Store, tmp_path: Path) -> None:
    checkpoint = tiny_whisper.build(tmp_path / "tiny")
    stored = models.pull(str(checkpoint))
    as_older_version(stored)
    stored.files["decoder"].with_name("old").touch()
    with pytest.raises(ModelMissing, match=r"older edgeserve.*`edgeserve pull tiny`.*came from .*tiny"):
        models.find("tiny")
    assert models.list() == (stored,)
    assert models.pull(str(checkpoint)) == stored
    assert models.find("tiny") == stored
    assert not stored.files["decoder"].with_name("old").exists()
    assert left(models) == ["tiny"]


@pytest.mark.slow
def test_a_model_that_an_older_version_converted_can_be_removed(models: Store, tmp_path: Path) -> None:
    as_older_version(models.pull(str(tiny_whisper.build(tmp_path / "tiny"))))
    models.remove("tiny")
    assert left(models) == []
