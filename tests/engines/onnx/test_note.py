"""The note beside a prepared model tells whether its files are those that were prepared."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from edgeserve.engines.onnx.key import Key, Machine
from edgeserve.engines.onnx.note import BLOCK, BLOCKS, NOTE, Note

KEY = Key(Machine("1", "cpu"), {})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "graph.onnx").write_bytes(b"graph")
    (tmp_path / "graph.onnx.data").write_bytes(bytes(range(256)) * 4096)
    Note.of(tmp_path, "external", "", KEY).write(tmp_path)
    return tmp_path


def test_a_note_comes_back(folder: Path) -> None:
    found = Note.read(folder)
    assert found is not None
    assert (found.form, found.files["graph.onnx"], found.key) == ("external", 5, KEY)


def test_files_of_another_size_or_of_other_contents_are_not_those(folder: Path) -> None:
    data = folder / "graph.onnx.data"
    whole = data.read_bytes()
    for other in (whole[:-1], bytes(len(whole)), whole[: len(whole) // 2] + bytes(len(whole) // 2)):
        data.write_bytes(other)
        assert Note.read(folder) is None
    data.write_bytes(whole)
    assert Note.read(folder) is not None


def test_a_sample_has_the_ends_of_a_file(folder: Path) -> None:
    data = folder / "graph.onnx.data"
    whole = bytearray(data.read_bytes())
    assert len(whole) > BLOCKS * BLOCK
    for place in (0, len(whole) - 1):
        changed = whole.copy()
        changed[place] ^= 1
        data.write_bytes(changed)
        assert Note.read(folder) is None


def test_an_older_note_without_samples_holds(folder: Path) -> None:
    written = json.loads((folder / NOTE).read_text())
    del written["samples"]
    (folder / NOTE).write_text(json.dumps(written))
    (folder / "graph.onnx").write_bytes(b"other")
    assert Note.read(folder) is not None
