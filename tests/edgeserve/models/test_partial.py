"""A model during its pull: wrong bytes, failing conversions, and the order of writes to the disk."""

from __future__ import annotations

from pathlib import Path

import gguf
import pytest
from support import tiny_whisper
from support.http_files import Files
from support.store import left
from support.tiny_bert import HEAD, write_bert

from edgeserve.errors import SourceUnavailable, StoreError
from edgeserve.jobs import INFO
from edgeserve.models import catalog
from edgeserve.models.sources import hub
from edgeserve.models.sources.source import HubSource
from edgeserve.models.store import Store

PAGE = b"<!DOCTYPE html><html><title>Sign in</title>" + bytes(4000)


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "application/octet-stream", ""])
@pytest.mark.parametrize("content", [PAGE, b"", b'{"error": "no"}', b"PK\x03\x04", b"\nnot a model"])
def test_bytes_that_are_no_model_are_not_stored(models: Store, files: Files, content: bytes, kind: str) -> None:
    files.data["/page.gguf"], files.types["/page.gguf"] = content, kind
    with pytest.raises(SourceUnavailable, match=r"page\.gguf is (a web page|no GGUF file|empty)"):
        models.pull(f"{files.url}/page.gguf")
    assert left(models) == []
    assert models.leftovers() == ()


def test_a_page_is_refused_before_it_is_read_to_its_end(models: Store, files: Files) -> None:
    import threading

    files.data["/page.gguf"], files.gate = PAGE * 1000, threading.Event()
    with pytest.raises(SourceUnavailable, match="is a web page"):
        models.pull(f"{files.url}/page.gguf")
    assert not files.gate.is_set()


def test_a_hub_that_answers_with_a_page_leaves_nothing(models: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    def fetch(source: HubSource, into: Path, *ignored: object) -> dict[str, Path]:
        (into / "m.gguf").write_bytes(PAGE)
        return {"model": into / "m.gguf"}

    monkeypatch.setattr(hub, "fetch", fetch)
    with pytest.raises(SourceUnavailable, match=r"m\.gguf of hub org/repo@main is a web page"):
        models.pull("hub:org/repo/m.gguf")
    assert left(models) == []


@pytest.mark.parametrize("length", ["abc", "-1", "9" * 5000])
def test_a_length_that_is_no_number_is_not_believed(models: Store, files: Files, length: str) -> None:
    files.headers["/one.gguf"] = {"Content-Length": length}
    try:
        assert models.pull(f"{files.url}/one.gguf").size_bytes >= 4
    except StoreError as error:
        assert error.message  # noqa: PT017 - either is right: believing it is not


def test_a_gguf_of_an_address_has_the_job_that_it_was_made_for(models: Store, files: Files, tmp_path: Path) -> None:
    made = write_bert(tmp_path / "m.gguf", gguf.PoolingType.RANK, head=tuple(HEAD)).read_bytes()
    files.data["/ranks.gguf"] = made
    address = f"{files.url}/ranks.gguf"
    found = [models.pull(address), models.pull(address), models.find(address), models.find("ranks")]
    assert {(one.job, one.engine) for one in found} == {("rerank", INFO["rerank"].engine)}


@pytest.mark.slow
def test_an_inconvertible_checkpoint_is_an_error(models: Store, tmp_path: Path) -> None:
    source = tiny_whisper.build(tmp_path / "tiny")
    (source / "model.bin").write_bytes((source / "model.bin").read_bytes()[:1000])
    with pytest.raises(StoreError, match=r"model\.bin: "):
        models.pull(str(source))
    assert left(models) == []


def test_a_models_bytes_are_on_the_disk_before_its_manifest_and_that_before_its_name(
    tmp_path: Path, files: Files
) -> None:
    root, synced = tmp_path / "models", list[tuple[str, bool, bool]]()
    folder = root / ".partial-one"

    def sync(path: Path) -> None:
        synced.append((path.name, (folder / "manifest.json").exists(), (root / "one").exists()))

    Store(root, sync=sync).pull(f"{files.url}/one.gguf")
    assert synced == [
        ("one.gguf", False, False),
        (".manifest.json.new", False, False),
        (".partial-one", True, False),
        ("models", False, True),
    ]


@pytest.mark.slow
def test_every_file_of_a_converted_model_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(catalog, "COMPANIONS", {})
    monkeypatch.setattr("edgeserve.models.store.prepare", lambda *ignored: None)
    synced: list[str] = []
    store = Store(tmp_path / "models", sync=lambda path: synced.append(path.name))
    stored = store.pull(str(tiny_whisper.build(tmp_path / "tiny")))
    assert sorted(synced[: len(stored.files)]) == sorted(path.name for path in stored.files.values())


def test_a_disk_that_cannot_sync_leaves_no_model(tmp_path: Path, files: Files) -> None:
    def fails(path: Path) -> None:
        raise OSError(5, "Input/output error", str(path))

    store = Store(tmp_path / "models", sync=fails)
    with pytest.raises(StoreError, match="cannot be read or written"):
        store.pull(f"{files.url}/one.gguf")
    assert store.list() == ()
