"""Meanings of names: catalogue names, addresses, folders, and files for MLX."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from support import tiny_whisper
from support.examples import examples
from support.http_files import Files
from support.store import GGUF, left

from edgeserve.errors import (
    EdgeserveError,
    ModelMissing,
    StoreError,
)
from edgeserve.jobs import INFO, MLX_WHISPER
from edgeserve.models import catalog, wanted
from edgeserve.models.sources import hub
from edgeserve.models.store import Store


@pytest.mark.parametrize(
    ("what", "told"),
    [
        ("hub:nobody", "expected hub:owner/repository"),
        ("./none.gguf", "no such file"),
        ("https://models.invalid/model.bin", "only GGUF files"),
        ("gpt-7", "no model is called"),
    ],
)
def test_an_unknown_name_lists_valid_forms(what: str, told: str) -> None:
    from edgeserve.errors import EdgeserveError

    with pytest.raises(EdgeserveError, match=told):
        wanted.understand(what)


def test_what_a_hub_address_means() -> None:
    one = wanted.understand("hub:Org/My_Repo/sub/Model-Q4.gguf@v1")
    assert (one.name, one.job) == ("model-q4", "llm")
    assert str(one.sources[0]) == "hub Org/My_Repo@v1"
    whole = wanted.understand("hub:Systran/faster-whisper-base", offline=True)
    assert (whole.job, whole.convert) == ("asr", "whisper")


def test_a_folder_that_is_no_model_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="neither a GGUF"):
        wanted.understand(str(tmp_path))


@pytest.mark.parametrize("file", ["hibari", "whisper", "starter"])
def test_a_file_from_an_address_takes_no_name_of_the_catalogue(models: Store, files: Files, file: str) -> None:
    stored = models.pull(f"{files.url}/{file}.gguf")
    assert stored.name == f"127.0.0.1-{file}"
    with pytest.raises(ModelMissing):
        models.find(file)
    assert models.find(stored.name) == models.find(f"{files.url}/{file}.gguf") == stored


@pytest.mark.parametrize(
    "where", ["https://models.invalid/{}.gguf", "hub:org/repo/{}.gguf", "hub:org/{}", "HUB/{}.gguf?token=1"]
)
def test_nothing_from_elsewhere_means_a_catalogue_model(where: str) -> None:
    for name in (*catalog.MODELS, *(one for entry in catalog.MODELS.values() for one in entry.aliases)):
        address = where.format(name.upper()).replace("HUB/", "https://hibari:8000/a/")
        found = wanted.understand(address, offline=True)
        assert not catalog.knows(found.name), address
        assert not found.in_catalogue, address
        assert not found.checksums, address


@pytest.mark.slow
def test_a_folder_here_takes_no_name_of_the_catalogue(
    models: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_whisper.build(tmp_path / "whisper-tiny.en")
    monkeypatch.chdir(tmp_path)
    assert wanted.understand("whisper-tiny.en").in_catalogue
    assert wanted.understand("./whisper-tiny.en").name == "local-whisper-tiny.en"
    assert models.pull("./whisper-tiny.en").name == "local-whisper-tiny.en"


@pytest.mark.parametrize("name", ["~nobody-of-this-name/x.gguf", "x" * 5000, "a\0b", "???", "", "http://[::1/m.gguf"])
def test_unknown_names_are_errors(models: Store, name: str) -> None:
    for use in (models.pull, models.find, models.remove):
        with pytest.raises(Exception, match=r"\w") as told:
            use(name)
        assert told.type.__module__ == "edgeserve.errors"


PREFIXES = st.sampled_from(["", "hub:", "hub:o/r/", "http://", "https://h/", "HTTP://", "./", "/", "~", ".partial-"])


@pytest.mark.slow
@examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(prefix=PREFIXES, name=st.text(max_size=40), end=st.sampled_from(["", ".gguf", ".onnx", "?x.gguf", "@v"]))
def test_any_name_is_a_model_or_an_error(models: Store, prefix: str, name: str, end: str) -> None:
    for use in (models.find, models.remove, models.ready, models.lacking, models.needed):
        with contextlib.suppress(EdgeserveError):
            use(prefix + name + end)
    assert not models.root.exists() or left(models) == []


def test_a_folder_that_lacks_a_file_is_an_error(models: Store, tmp_path: Path) -> None:
    (tmp_path / "decoder.onnx").touch()
    with pytest.raises(StoreError, match=r"No such file or directory; .* needs this file"):
        models.find(str(tmp_path))


def test_a_long_name_still_fits_into_a_folder(models: Store, files: Files) -> None:
    for end in "ab":
        files.data[f"/{'x' * 190}{end}.gguf"] = GGUF
        models.pull(f"{files.url}/{'x' * 190}{end}.gguf")
    assert len(models.list()) == 2


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
    found = wanted.understand("hub:mlx-community/whisper-large-v2-mlx@v2")
    assert (found.name, found.engine, found.convert) == ("whisper-large-v2-mlx", MLX_WHISPER, "")
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
