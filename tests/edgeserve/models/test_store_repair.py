"""What goes wrong in the store: damage, crashes, leftovers, and files that take another model's name."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from support import tiny_whisper
from support.examples import examples
from support.http_files import Files, serving_files

from edgeserve.errors import (
    ConfigError,
    DiskFull,
    EdgeserveError,
    ModelDamaged,
    ModelMissing,
    SourceUnavailable,
    StoreError,
)
from edgeserve.models import catalog, partial, wanted
from edgeserve.models.convert import whisper
from edgeserve.models.folder import default_root
from edgeserve.models.sources import hub, package
from edgeserve.models.sources.source import HubSource
from edgeserve.models.store import Store, StoredModel

GGUF = b"GGUF" + bytes(3000)
ONNX = b"\x08\x0a" + bytes(2000)


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


def left(store: Store) -> list[str]:
    return sorted(path.name for path in store.root.iterdir() if not path.name.startswith(".lock"))


# Names


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


def test_a_folder_here_takes_no_name_of_the_catalogue(
    models: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tiny_whisper.build(tmp_path / "whisper-tiny.en")
    monkeypatch.chdir(tmp_path)
    assert wanted.understand("whisper-tiny.en").in_catalogue
    assert wanted.understand("./whisper-tiny.en").name == "local-whisper-tiny.en"
    assert models.pull("./whisper-tiny.en").name == "local-whisper-tiny.en"


def test_a_catalogue_name_that_an_older_version_gave_to_an_address_is_told(models: Store) -> None:
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


@pytest.mark.parametrize("name", ["~nobody-of-this-name/x.gguf", "x" * 5000, "a\0b", "???", "", "http://[::1/m.gguf"])
def test_names_that_mean_nothing_are_told(models: Store, name: str) -> None:
    for use in (models.pull, models.find, models.remove):
        with pytest.raises(Exception, match=r"\w") as told:
            use(name)
        assert told.type.__module__ == "edgeserve.errors"


PREFIXES = st.sampled_from(["", "hub:", "hub:o/r/", "http://", "https://h/", "HTTP://", "./", "/", "~", ".partial-"])


@examples(300, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(prefix=PREFIXES, name=st.text(max_size=40), end=st.sampled_from(["", ".gguf", ".onnx", "?x.gguf", "@v"]))
def test_any_name_is_a_model_or_told(models: Store, prefix: str, name: str, end: str) -> None:
    for use in (models.find, models.remove, models.ready, models.lacking, models.needed):
        with contextlib.suppress(EdgeserveError):
            use(prefix + name + end)
    assert not models.root.exists() or left(models) == []


def test_a_folder_that_lacks_a_file_is_told(models: Store, tmp_path: Path) -> None:
    (tmp_path / "decoder.onnx").touch()
    with pytest.raises(StoreError, match=r"No such file or directory; .* needs this file"):
        models.find(str(tmp_path))


@pytest.mark.parametrize("environ", [{"EDGESERVE_MODELS_DIR": "~nobody-of-this-name/models"}, {"HOME": "~nobody-here"}])
def test_a_home_that_nobody_knows_is_told(environ: dict[str, str]) -> None:
    with pytest.raises(ConfigError, match="this home folder is unknown"):
        default_root(environ)


def test_a_long_name_still_fits_into_a_folder(models: Store, files: Files) -> None:
    for end in "ab":
        files.data[f"/{'x' * 190}{end}.gguf"] = GGUF
        models.pull(f"{files.url}/{'x' * 190}{end}.gguf")
    assert len(models.list()) == 2


# Damage


def claim(stored: StoredModel, **changes: object) -> None:
    path = stored.files["model"].with_name("manifest.json")
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


def cut(folder: Path) -> None:
    path = folder / "manifest.json"
    path.write_bytes(path.read_bytes()[:40])


def empty(folder: Path) -> None:
    (folder / "manifest.json").write_bytes(b"")


def lose(folder: Path) -> None:
    next(folder.glob("*.onnx")).unlink()


def shorten(folder: Path) -> None:
    next(folder.glob("*.onnx")).write_bytes(b"short")


def turn(folder: Path) -> None:
    """Into a model of another job."""
    path = folder / "manifest.json"
    found = json.loads(path.read_text()) | {"job": "llm", "engine": "engines.llama.chat:LlamaChat"}
    path.write_text(json.dumps(found))


DAMAGE = [cut, empty, lose, shorten]


@pytest.mark.parametrize("damage", [*DAMAGE, turn])
def test_one_damaged_model_is_told_with_its_mend_and_hurts_no_other(
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


def test_a_repair_that_fails_keeps_what_was_there(models: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    models.pull("hibari")
    empty(models.root / "hibari")

    def fails(*ignored: object) -> dict[str, Path]:
        raise SourceUnavailable("no network")

    monkeypatch.setattr(package, "fetch", fails)
    with pytest.raises(SourceUnavailable):
        models.pull("hibari")
    assert left(models) == ["hibari"]
    assert (models.root / "hibari" / "hibari.onnx").exists()


def test_a_damaged_detector_is_told_and_pulled_again(
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


def test_a_folder_with_a_name_that_no_model_gets_is_told(models: Store) -> None:
    models.pull("hibari")
    shutil.copytree(models.root / "hibari", models.root / "My Voice")
    assert [one.name for one in models.list()] == ["hibari"]
    assert "rename or remove the folder" in models.damaged()["My Voice"].message


def test_a_store_that_is_a_file_is_told(tmp_path: Path) -> None:
    (tmp_path / "models").touch()
    store = Store(tmp_path / "models")
    assert store.list() == ()
    assert store.leftovers() == ()
    for use in (store.pull, store.remove, store.find):
        with pytest.raises(StoreError):
            use("hibari")


# Leftovers


def broken_off(models: Store, files: Files) -> None:
    files.data["/one.gguf"], files.cut_after = GGUF * 100, 2000
    with pytest.raises(SourceUnavailable):
        models.pull(f"{files.url}/one.gguf")


def test_what_a_pull_left_is_listed_gone_on_with_and_removed(models: Store, files: Files) -> None:
    broken_off(models, files)
    (one,) = models.leftovers()
    assert (one.name, one.of, one.busy) == ("one", "pull", False)
    assert one.size_bytes >= 1024
    models.remove("one")
    assert models.leftovers() == ()
    assert left(models) == []
    with pytest.raises(ModelMissing):
        models.remove("one")
    broken_off(models, files)
    models.pull(f"{files.url}/one.gguf")
    assert models.leftovers() == ()


def test_a_model_is_removed_with_what_was_left_beside_it(models: Store, files: Files) -> None:
    models.pull(f"{files.url}/one.gguf")
    for name in (".partial-one", ".removed-one"):
        (models.root / name).mkdir()
        (models.root / name / "x.part").write_bytes(b"x")
    assert [(one.name, one.of) for one in models.leftovers()] == [("one", "pull"), ("one", "removal")]
    models.remove("one")
    assert left(models) == []


def test_a_pull_under_way_is_neither_a_leftover_nor_removed(models: Store, files: Files) -> None:
    broken_off(models, files)
    with (models.root / ".lock-one").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        (one,) = models.leftovers()
        assert one.busy
        with pytest.raises(StoreError, match="another process pulls or removes"):
            models.remove("one")
    (one,) = models.leftovers()
    assert not one.busy


# What a server sends

PAGE = b"<!DOCTYPE html><html><title>Sign in</title>" + bytes(4000)


@pytest.mark.parametrize("kind", ["text/html; charset=utf-8", "application/octet-stream", ""])
@pytest.mark.parametrize("content", [PAGE, b"", b'{"error": "no"}', b"PK\x03\x04", b"\nnot a model"])
def test_what_is_no_model_is_not_stored(models: Store, files: Files, content: bytes, kind: str) -> None:
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


@pytest.mark.slow
@pytest.mark.parametrize("fault", [TypeError("x"), KeyError("d"), IndexError(), ZeroDivisionError("0"), RuntimeError()])
def test_a_checkpoint_that_cannot_be_converted_is_told(
    models: Store, tmp_path: Path, fault: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(*ignored: object) -> None:
        raise fault

    monkeypatch.setattr(whisper, "_write", fails)
    with pytest.raises(StoreError, match="its checkpoint cannot be converted"):
        models.pull(str(tiny_whisper.build(tmp_path / "tiny")))
    assert left(models) == []


# The disk


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


# What is needed


def test_a_missing_package_is_told_before_anything_is_fetched(tmp_path: Path) -> None:
    store = Store(tmp_path / "models", installed=lambda module: module != "onnx")
    for use in (store.ready, store.pull):
        with pytest.raises(StoreError, match=r"needs onnx: pip install 'edgeserve\[starter\]'"):
            use("whisper-tiny.en")
    assert not store.root.exists() or left(store) == []


def test_a_missing_package_matters_only_to_what_is_pulled(models: Store, tmp_path: Path) -> None:
    checkpoint = str(tiny_whisper.build(tmp_path / "tiny"))
    stored = models.pull(checkpoint)
    without = Store(models.root, installed=lambda module: False)
    assert without.pull(checkpoint) == stored
    without.ready("whisper-tiny.en-mlx")  # written with NumPy alone
    without.ready("hub:org/repo")  # may be a model that needs no conversion
    assert [need.package for need in without.needed("hibari")] == ["hibari-tts"]
    assert [need.package for need in without.needed("whisper-tiny.en")] == ["onnx"]
    assert without.needed("smollm2") == without.needed("tiny") == ()


def test_a_full_disk_is_told_before_anything_is_asked(tmp_path: Path) -> None:
    store = Store(tmp_path / "models", free=lambda path: 1 << 20, installed=lambda module: True)
    with pytest.raises(DiskFull, match="1 MB are free"):
        store.ready("qwen3-4b")
    assert os.listdir(store.root) == []
