"""The store: a model is complete and checked or absent, pulled once by any number of pulls, without leftovers."""

from __future__ import annotations

import dataclasses
import errno
import hashlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import tiny_whisper
from support.http_files import Files, serving_files
from support.server import until
from support.store import left

from edgeserve.errors import ChecksumMismatch, DiskFull, ModelMissing, SourceUnavailable, StoreError
from edgeserve.jobs import STARTER
from edgeserve.models import catalog
from edgeserve.models import entry as catalog_entry
from edgeserve.models.lock import locked
from edgeserve.models.sources.source import KEPT_FREE, Progress, UrlSource
from edgeserve.models.store import Store

DATA = b"GGUF" + os.urandom(200_000)


LISTENER = b"\x08\x0a" + os.urandom(20_000)


@pytest.fixture
def files() -> Iterator[Files]:
    with serving_files() as files:
        files.data["/Tiny_Model.gguf"] = DATA
        yield files


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """An empty store, where nothing comes with a model unasked."""
    monkeypatch.setattr(catalog, "COMPANIONS", {})
    return Store(tmp_path / "models")


def test_a_pulled_model_is_found_listed_and_not_fetched_again(models: Store, files: Files) -> None:
    told: list[Progress] = []
    stored = models.pull(f"{files.url}/Tiny_Model.gguf", progress=told.append)
    assert (stored.name, stored.job, stored.size_bytes) == ("tiny_model", "llm", len(DATA))
    assert stored.files["model"].read_bytes() == DATA
    assert {one.stage for one in told} == {"download"}
    assert models.pull(f"{files.url}/Tiny_Model.gguf") == stored
    assert files.gets("/Tiny_Model.gguf") == 1
    assert models.find(f"{files.url}/Tiny_Model.gguf") == stored
    assert models.list() == (stored,)
    assert left(models) == ["tiny_model"]


def test_verify_detects_one_changed_byte(models: Store, files: Files) -> None:
    stored = models.pull(f"{files.url}/Tiny_Model.gguf")
    assert models.verify(f"{files.url}/Tiny_Model.gguf") == stored
    changed = bytearray(DATA)
    changed[7] ^= 1
    stored.files["model"].write_bytes(changed)
    with pytest.raises(ChecksumMismatch):
        models.verify(f"{files.url}/Tiny_Model.gguf")


def test_a_file_of_another_size_is_damage(models: Store, files: Files) -> None:
    stored = models.pull(f"{files.url}/Tiny_Model.gguf")
    stored.files["model"].write_bytes(b"short")
    with pytest.raises(StoreError, match="is damaged or gone"):
        models.find(f"{files.url}/Tiny_Model.gguf")


def test_a_wrong_checksum_keeps_nothing(models: Store, files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = catalog_entry.Entry(
        "tiny", "llm", "", "MIT", len(DATA), (UrlSource(f"{files.url}/Tiny_Model.gguf"),), {"model": "0" * 64}
    )
    monkeypatch.setattr(catalog, "find", lambda name: entry)
    with pytest.raises(ChecksumMismatch, match="was promised"):
        models.pull("tiny")
    assert left(models) == []
    good = dataclasses.replace(entry, checksums={"model": hashlib.sha256(DATA).hexdigest()})
    monkeypatch.setattr(catalog, "find", lambda name: good)
    assert models.pull("tiny").licence == "MIT"


def test_the_next_source_serves_when_the_first_does_not(
    models: Store, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = (UrlSource(f"{files.url}/none.gguf"), UrlSource(f"{files.url}/Tiny_Model.gguf"))
    entry = catalog_entry.Entry("tiny", "llm", "", "MIT", len(DATA), sources)
    monkeypatch.setattr(catalog, "find", lambda name: entry)
    assert models.pull("tiny").source == f"{files.url}/Tiny_Model.gguf"
    files.data.clear()
    models.remove("tiny")
    with pytest.raises(SourceUnavailable, match=r"none\.gguf answered 404.*; .*Tiny_Model\.gguf answered 404"):
        models.pull("tiny")


def test_a_full_disk_is_an_error_before_any_download(tmp_path: Path, files: Files) -> None:
    full = Store(tmp_path, free=lambda path: 1 << 20)
    with pytest.raises(DiskFull, match="1 MB are free"):
        full.pull("smollm2")
    assert left(full) == []


def test_a_disk_that_fills_during_a_pull_is_an_error(
    models: Store, files: Files, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(*args: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("edgeserve.models.sources.url.fetch", full)
    with pytest.raises(DiskFull, match=r"the disk of .* is full"):
        models.pull(f"{files.url}/Tiny_Model.gguf")


def test_a_model_from_an_address_is_known_by_its_plain_name(models: Store, files: Files) -> None:
    stored = models.pull(f"{files.url}/Tiny_Model.gguf")
    assert models.find(stored.name) == stored
    models.remove(stored.name)
    assert left(models) == []


def test_remove(models: Store, files: Files) -> None:
    models.pull(f"{files.url}/Tiny_Model.gguf")
    models.remove(f"{files.url}/Tiny_Model.gguf")
    assert left(models) == []
    with pytest.raises(ModelMissing):
        models.remove("smollm2")


def test_a_local_file_is_used_in_place_and_not_removed(models: Store, tmp_path: Path) -> None:
    path = tmp_path / "my.gguf"
    path.write_bytes(DATA)
    stored = models.pull(str(path))
    assert stored == models.find(str(path))
    assert stored.files == {"model": path}
    with pytest.raises(StoreError, match="used in place"):
        models.remove(str(path))
    assert path.exists()


def test_a_model_that_is_not_there_names_the_command(models: Store) -> None:
    with pytest.raises(ModelMissing, match="`edgeserve pull whisper-base`"):
        models.find("Whisper-Base")
    with pytest.raises(ModelMissing, match="did you mean"):
        models.find("wisper-base")


PULL = """
import sys
from pathlib import Path
from edgeserve.models.store import Store
print(Store(Path(sys.argv[1])).pull(sys.argv[2], progress=lambda now: print(now.stage, flush=True)).name)
"""


def pulling(store: Store, address: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", PULL, str(store.root), address]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


@pytest.mark.slow
def test_two_processes_pull_once(models: Store, files: Files) -> None:
    import threading

    files.gate = threading.Event()
    address = f"{files.url}/Tiny_Model.gguf"
    first = pulling(models, address)
    assert files.begun.wait(20)
    second = pulling(models, address)
    assert second.stdout is not None
    assert second.stdout.readline() == "wait\n"
    files.gate.set()
    for process in (first, second):
        out, errors = process.communicate(timeout=30)
        assert process.returncode == 0, errors
        assert out.splitlines()[-1] == "tiny_model"
    assert files.gets("/Tiny_Model.gguf") == 1


@pytest.mark.slow
def test_ctrl_c_leaves_only_resumable_parts(models: Store, files: Files) -> None:
    import threading

    files.gate = threading.Event()
    address = f"{files.url}/Tiny_Model.gguf"
    process = pulling(models, address)
    assert files.begun.wait(20)
    part = models.root / ".partial-tiny_model" / "Tiny_Model.gguf.part"
    until(part.exists)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert "KeyboardInterrupt" in errors
    assert left(models) == [".partial-tiny_model"]
    assert {path.name for path in part.parent.iterdir()} <= {"Tiny_Model.gguf.part", "Tiny_Model.gguf.part.json"}
    files.gate.set()
    assert models.pull(address).files["model"].read_bytes() == DATA
    assert left(models) == ["tiny_model"]


def test_leftovers_of_a_killed_pull_stay_out_of_the_model(models: Store, files: Files) -> None:
    (models.root / ".partial-tiny_model" / "wheel-1").mkdir(parents=True)
    (models.root / ".partial-tiny_model" / "half.onnx").write_bytes(b"half")
    stored = models.pull(f"{files.url}/Tiny_Model.gguf")
    assert {path.name for path in (models.root / stored.name).iterdir()} == {"Tiny_Model.gguf", "manifest.json"}


def test_a_model_that_changed_is_replaced_once_the_new_one_is_complete(models: Store, files: Files) -> None:
    where, newer = f"{files.url}/Tiny_Model.gguf", b"GGUF" + os.urandom(100)
    models.pull(where)
    files.status = 503
    with pytest.raises(SourceUnavailable):
        models.renew(where)
    assert models.find(where).files["model"].read_bytes() == DATA, "the old one stays until then"
    files.status = 200
    files.data["/Tiny_Model.gguf"] = newer
    assert models.pull(where).size_bytes == len(DATA)
    assert models.renew(where).files["model"].read_bytes() == newer
    assert models.verify(where).size_bytes == len(newer)
    assert left(models) == ["tiny_model"]


def test_a_leftover_goes_and_the_model_of_its_name_stays(models: Store, files: Files) -> None:
    models.pull(f"{files.url}/Tiny_Model.gguf")
    (models.root / ".partial-tiny_model").mkdir()
    (one,) = models.leftovers()
    with locked(models.root, "tiny_model"), pytest.raises(StoreError, match="under way"):
        models.discard(one)
    models.discard(one)
    models.discard(one)
    assert models.leftovers() == ()
    assert [stored.name for stored in models.list()] == ["tiny_model"]


@pytest.mark.slow
@pytest.mark.models
def test_a_local_checkpoint_is_converted(models: Store, checkpoint: Path) -> None:
    stored = models.pull(str(checkpoint))
    assert stored.job == "asr"
    assert set(stored.files) >= {"encoder", "cross", "decoder", "config", "tokenizer"}
    assert (checkpoint / "model.bin").exists()
    assert models.find(str(checkpoint)) == stored


@pytest.mark.models
@pytest.mark.parametrize("name", STARTER.values())
def test_the_starter_models_have_their_documented_sizes(store: Store, name: str) -> None:
    entry = catalog.find(name)
    stored = store.pull(name)
    assert stored.licence == entry.licence
    if not entry.convert:
        assert stored.size_bytes == entry.size_bytes


@pytest.fixture
def listener(files: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    """The detector that comes with transcription models, made up and served here."""
    files.data["/listener.onnx"] = LISTENER
    entry = catalog.find("silero-vad")
    source = UrlSource(f"{files.url}/listener.onnx", "vad")
    made_up = dataclasses.replace(entry, sources=(source,), checksums={}, size_bytes=len(LISTENER))
    find = catalog.find
    monkeypatch.setattr(catalog, "find", lambda name: made_up if name == entry.name else find(name))


@pytest.mark.slow
def test_a_detector_of_speech_comes_with_every_transcription_model(tmp_path: Path, listener: None) -> None:
    models = Store(tmp_path / "models")
    stored = models.pull(str(tiny_whisper.build(tmp_path / "tiny")))
    assert stored.files["vad"].read_bytes() == LISTENER
    assert models.find("tiny") == models.find(str(tmp_path / "tiny")) == stored
    assert models.lacking("tiny") == ()
    assert left(models) == ["silero-vad", "tiny"]
    assert models.find("silero-vad").job == "vad"
    models.remove("silero-vad")
    assert models.lacking("tiny") == ("silero-vad",)
    assert set(models.find("tiny").files) == set(stored.files) - {"vad"}
    models.pull("silero-vad")
    assert models.find("tiny") == stored


def test_a_missing_package_is_an_error_before_any_download(tmp_path: Path) -> None:
    store = Store(tmp_path / "models", installed=lambda module: module != "onnx")
    for use in (store.ready, store.pull):
        with pytest.raises(StoreError, match="needs onnx: pip install onnx"):
            use("whisper-tiny.en")
    assert not store.root.exists() or left(store) == []


@pytest.mark.slow
def test_a_missing_package_matters_only_to_a_pull(
    models: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgeserve.models.store.prepare", lambda *ignored: None)
    checkpoint = str(tiny_whisper.build(tmp_path / "tiny"))
    stored = models.pull(checkpoint)
    without = Store(models.root, installed=lambda module: False)
    assert without.pull(checkpoint) == stored
    without.ready("whisper-tiny.en-mlx")  # written with NumPy alone
    without.ready("hub:org/repo")  # may be a model that needs no conversion
    assert [need.package for need in without.needed("hibari")] == ["hibari-tts"]
    assert [need.package for need in without.needed("whisper-tiny.en")] == ["onnx"]
    assert without.needed("smollm2") == without.needed("tiny") == ()


def test_a_full_disk_is_an_error_before_any_source_is_asked(tmp_path: Path) -> None:
    store = Store(tmp_path / "models", free=lambda path: 1 << 20, installed=lambda module: True)
    with pytest.raises(DiskFull, match="1 MB are free"):
        store.ready("qwen3-4b")
    assert os.listdir(store.root) == []


def test_a_source_that_sends_without_end_leaves_room_on_the_disk(tmp_path: Path, files: Files) -> None:
    files.data["/one.gguf"] = DATA + bytes(6 << 20)

    def free(path: Path) -> int:
        return KEPT_FREE + (3 << 20) - sum(one.stat().st_size for one in path.rglob("*") if one.is_file())

    store = Store(tmp_path, free=free)
    with pytest.raises(DiskFull, match="a download leaves 128 MB to others"):
        store.pull(f"{files.url}/one.gguf")
    assert free(tmp_path) > KEPT_FREE - (2 << 20)
    store.remove("one")
    assert free(tmp_path) == KEPT_FREE + (3 << 20)
