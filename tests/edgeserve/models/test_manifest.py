"""Manifests: the store's own are read; for any other, one sentence names the file."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import strategies as st
from support.examples import examples
from support.store import hibari

from edgeserve.errors import ModelDamaged, ModelMissing, StoreError
from edgeserve.models import catalog, entry, manifest
from edgeserve.models.manifest import Manifest
from edgeserve.models.store import Store

GOOD = hibari(3)
FEW = examples(150, suppress_health_check=[HealthCheck.function_scoped_fixture])

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
HOSTILE = st.sampled_from(
    [
        *(
            "os:system",
            "subprocess:run",
            "edgeserve.engines.fake.engine:FakeChat",
            "edgeserve.engines.llama.chat:LlamaChat",
            "builtins:exec",
            ":",
            "",
        ),
        *("../../etc/passwd", "/etc/passwd", "..", ".", "a/b", "a\\b", "manifest.json", ".hidden", "a\0b", "\ud800"),
        *("x" * 300, "\n", -1, 1e999, 1 << 80, True, None, [], {}, [[]] * 50),
    ]
)


def stored(tmp_path: Path, content: bytes) -> Path:
    folder = tmp_path / "hibari"
    folder.mkdir(exist_ok=True)
    (folder / "hibari.onnx").write_bytes(b"abc")
    (folder / "manifest.json").write_bytes(content)
    return folder


def paths(value: object, at: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    below = [path for key, one in value.items() for path in paths(one, (*at, key))] if isinstance(value, dict) else []
    return [at, *below]


def changed(path: tuple[str, ...], value: object) -> Any:
    """The good manifest with another value at this place."""
    if not path:
        return value
    found = json.loads(json.dumps(GOOD))
    holder = found
    for key in path[:-1]:
        holder = holder[key]
    holder[path[-1]] = value
    return found


def try_everything(tmp_path: Path) -> None:
    """Any bytes are read as a manifest that the store could have written, or refused in one sentence."""
    store = Store(tmp_path)
    for found in store.list():
        assert found == store.find("hibari")
        assert found.engine in entry.RUNNERS[found.job]
        assert all(path.parent == tmp_path / "hibari" for path in found.files.values())
    for name, error in store.damaged().items():
        assert f"{tmp_path / name}/" in error.message
        assert f"`edgeserve pull {name}` mends it" in error.message
        with pytest.raises(StoreError):
            store.find(name)
    assert len(store.list()) + len(store.damaged()) == 1


@pytest.mark.slow
@FEW
@given(content=st.binary(max_size=200))
def test_any_bytes(tmp_path: Path, content: bytes) -> None:
    stored(tmp_path, content)
    try_everything(tmp_path)


@pytest.mark.slow
@FEW
@given(value=JSON)
def test_any_json(tmp_path: Path, value: object) -> None:
    stored(tmp_path, json.dumps(value).encode())
    try_everything(tmp_path)


@pytest.mark.slow
@FEW
@given(path=st.sampled_from(paths(GOOD)), value=HOSTILE | JSON)
def test_any_value_in_any_place(tmp_path: Path, path: tuple[str, ...], value: object) -> None:
    stored(tmp_path, json.dumps(changed(path, value)).encode())
    try_everything(tmp_path)


@FEW
@given(end=st.integers(0, len(json.dumps(GOOD)) - 1))
def test_a_manifest_that_is_cut_is_damaged_wherever_the_cut_is(tmp_path: Path, end: int) -> None:
    folder = stored(tmp_path, json.dumps(GOOD).encode()[:end])
    with pytest.raises(ModelDamaged, match=r"hibari/manifest\.json is damaged: .*`edgeserve pull hibari` mends it"):
        manifest.read(folder)


@pytest.mark.slow
@FEW
@given(at=st.integers(0, len(json.dumps(GOOD)) - 1), flip=st.integers(1, 255))
def test_one_changed_byte(tmp_path: Path, at: int, flip: int) -> None:
    content = bytearray(json.dumps(GOOD).encode())
    content[at] ^= flip
    stored(tmp_path, bytes(content))
    try_everything(tmp_path)


@pytest.mark.parametrize("content", [b"[" * 100_000, b'{"files":' * 50_000, b" " * (1 << 21), b"9" * 5000])
def test_manifests_that_exhaust_a_parser(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(ModelDamaged):
        manifest.read(stored(tmp_path, content))


@pytest.mark.parametrize(
    "engine",
    [
        "os:system",
        "edgeserve.engines.fake.engine:FakeChat",
        "edgeserve.engines.llama.chat:LlamaChat",
        "edgeserve.engines.tts.onnx",
        "",
        "x.y.z:w",
    ],
)
def test_an_engine_that_no_model_of_its_kind_has_is_never_imported(tmp_path: Path, engine: str) -> None:
    with pytest.raises(ModelDamaged, match="is no engine for 'tts'"):
        manifest.read(stored(tmp_path, json.dumps({**GOOD, "engine": engine}).encode()))


@FEW
@given(key=st.text(max_size=12).filter(lambda key: key not in entry.OPTIONS), value=st.text() | st.integers())
def test_an_option_that_the_catalogue_has_not_never_reaches_an_engine(key: str, value: object) -> None:
    with pytest.raises(ValueError, match="is no option of a catalogue model"):
        manifest.parse(json.dumps({**GOOD, "options": {**GOOD["options"], key: value}}).encode())


@pytest.mark.parametrize(
    "name", ["../hibari.onnx", "/etc/hostname", "a/../../b", "..", ".x", "a\\b", "manifest.json", ""]
)
def test_a_file_elsewhere_is_never_read(tmp_path: Path, name: str) -> None:
    with pytest.raises(ModelDamaged, match="which is none of a file in the folder"):
        manifest.read(stored(tmp_path, json.dumps(changed(("files", "model", "name"), name)).encode()))


@pytest.mark.parametrize("target", ["../secret", "/etc/hostname"])
def test_a_link_out_of_the_folder_is_never_followed(tmp_path: Path, target: str) -> None:
    (tmp_path / "secret").write_bytes(b"abc")
    folder = stored(
        tmp_path, json.dumps(changed(("files", "model", "size"), os.stat("/etc/hostname").st_size)).encode()
    )
    if target == "../secret":
        (folder / "manifest.json").write_text(json.dumps(GOOD))
    (folder / "hibari.onnx").unlink()
    (folder / "hibari.onnx").symlink_to(target)
    with pytest.raises(ModelDamaged, match="is a link out of the model's folder"):
        Store(tmp_path).find("hibari")


def test_a_folder_that_is_a_link_itself_is_a_model(tmp_path: Path) -> None:
    """Models are moved to a larger disk so."""
    (tmp_path / "large").mkdir()
    folder = stored(tmp_path / "large", json.dumps(GOOD).encode())
    (tmp_path / "models").mkdir()
    (tmp_path / "models" / "hibari").symlink_to(folder)
    assert Store(tmp_path / "models").find("hibari").size_bytes == 3


@pytest.mark.parametrize("kind", ["folder", "pipe"])
def test_a_manifest_that_is_no_file(tmp_path: Path, kind: str) -> None:
    folder = stored(tmp_path, b"")
    path = folder / "manifest.json"
    path.unlink()
    if kind == "folder":
        path.mkdir()
    else:
        os.mkfifo(path)
    with pytest.raises(ModelDamaged, match="no plain file"):
        manifest.read(folder)


def test_no_manifest_means_that_the_model_is_missing(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for folder in (tmp_path / "hibari", tmp_path / "file"):
        with pytest.raises(ModelMissing, match="edgeserve pull"):
            manifest.read(folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(catalog.MODELS))
def test_manifests_of_all_catalogue_models_are_read(tmp_path: Path, name: str) -> None:
    from edgeserve.models.convert import ge2e, whisper, whisper_mlx
    from edgeserve.models.sources.source import UrlSource
    from edgeserve.models.wanted import understand

    wanted = understand(name)
    (source, *_) = wanted.sources
    assert not isinstance(source, UrlSource)
    names = {role: member.rsplit("/", 1)[-1] for role, member in source.members.items()}
    if wanted.convert == "whisper":
        names = {role: path.name for role, path in whisper.files_in(tmp_path).items()}
    elif wanted.convert == "whisper_mlx":
        names = {"weights": whisper_mlx.WEIGHTS, "config": "config.json"}
    elif wanted.convert == "ge2e":
        names = {"model": ge2e.GRAPH, "data": f"{ge2e.GRAPH}.data"}
    files = {role: tmp_path / file for role, file in names.items()}
    for path in files.values():
        path.write_bytes(path.name.encode())
    manifest.write(tmp_path, wanted, files, str(source))
    found: Manifest = manifest.read(tmp_path)
    assert (found.job, found.engine, found.options) == (wanted.job, wanted.engine, wanted.options)
    assert manifest.files_in(tmp_path, found) == files
    assert not found.outdated


@pytest.mark.parametrize(("former", "engine"), sorted(entry.FORMER.items()))
def test_an_engine_that_has_moved_is_found_under_its_former_name(tmp_path: Path, former: str, engine: str) -> None:
    job = next(job for job, engines in entry.RUNNERS.items() if engine in engines)
    files = dict.fromkeys(manifest.NEEDED[job][-1], GOOD["files"]["model"])
    found = {**GOOD, "job": job, "engine": former, "files": files, "options": {}}
    assert manifest.read(stored(tmp_path, json.dumps(found).encode())).engine == engine
