"""The conversion of Whisper: what it writes, and that it is the model it was."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy
import pytest
from support.checkpoints import write_checkpoint

from edgeserve.convert import graph, whisper
from edgeserve.errors import StoreError

Pulled = Callable[[str], Mapping[str, Path]]


def test_a_folder_that_is_no_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"has no model\.bin"):
        whisper.convert(tmp_path, tmp_path / "out")


def test_a_checkpoint_of_another_kind_is_named(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "model.bin", {})
    data = (tmp_path / "model.bin").read_bytes().replace(b"WhisperSpec", b"GenericSpec")
    (tmp_path / "model.bin").write_bytes(data)
    for name in ("config.json", "tokenizer.json"):
        (tmp_path / name).write_text("{}", encoding="utf-8")
    with pytest.raises(StoreError, match="holds a GenericSpec"):
        whisper.convert(tmp_path, tmp_path / "out")


def test_large_constants_lie_on_pages_of_the_data_file(tmp_path: Path) -> None:
    path = tmp_path / "g.onnx"
    with graph.GraphWriter(path) as writer:
        value = writer.input("x", [2, 1024])
        value = writer.node("Add", value, writer.constant("a", numpy.ones((2, 1024), numpy.float32)))
        value = writer.node("Mul", value, writer.constant("b", numpy.full((2, 1024), 3, numpy.float32)))
        writer.output("y", [2, 1024], value)
        writer.save("test")
    onnx = graph.load_onnx()
    model = onnx.load(str(path), load_external_data=False)
    places = [{entry.key: entry.value for entry in one.external_data} for one in model.graph.initializer]
    assert [int(place["offset"]) % graph.PAGE for place in places] == [0, 0]
    assert path.stat().st_size < 1000
    onnx.checker.check_model(str(path))


@pytest.mark.models
def test_the_graphs_are_valid_and_the_configuration_is_complete(pulled: Pulled) -> None:
    files = pulled("whisper-tiny.en")
    onnx = graph.load_onnx()
    for name in ("encoder", "cross", "decoder"):
        onnx.checker.check_model(str(files[name]))
    config = json.loads(files["config"].read_text(encoding="utf-8"))
    assert (config["mel_bins"], config["vocabulary_size"], config["decoder_layers"]) == (80, 51864, 4)
