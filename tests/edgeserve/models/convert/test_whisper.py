"""The conversion of Whisper: its files, and the same results as the original."""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy
import pytest
from support import tiny_whisper
from support.checkpoints import write_checkpoint

from edgeserve.errors import StoreError
from edgeserve.models.convert import graph, whisper

Pulled = Callable[[str], Mapping[str, Path]]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Not to be written to."""
    return tiny_whisper.build(tmp_path_factory.mktemp("whisper") / "checkpoint")


@pytest.fixture(scope="module")
def files(checkpoint: Path) -> Mapping[str, Path]:
    return whisper.convert(checkpoint, checkpoint.parent / "model")


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
def test_the_graphs_are_valid_and_the_configuration_is_complete(pulled: Pulled, tmp_path: Path) -> None:
    files = pulled("whisper-tiny.en")
    onnx = graph.load_onnx()
    # Copies: the checker refuses a file with a second hard link, and a user's store may have some.
    for path in files["encoder"].parent.glob("*.onnx*"):
        shutil.copy(path, tmp_path)
    for name in whisper.PARTS:
        onnx.checker.check_model(str(tmp_path / files[name].name))
        onnx.checker.check_model(str(tmp_path / files[name + whisper.INT8].name))
    config = json.loads(files["config"].read_text(encoding="utf-8"))
    assert (config["mel_bins"], config["vocabulary_size"], config["decoder_layers"]) == (80, 51864, 4)


def test_a_conversion_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    source, out = tiny_whisper.build_damaged(tmp_path / "checkpoint"), tmp_path / "model"
    with pytest.raises(StoreError, match="no variable decoder/layer_norm/gamma"):
        whisper.convert(source, out)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]


def test_leftovers_of_a_killed_conversion_are_overwritten(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / ".model.partial").mkdir()
    (tmp_path / ".model.partial" / "half.onnx.data").write_bytes(b"half")
    files = whisper.convert(checkpoint, tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} == {path.name for path in files.values()}
    assert [path.name for path in tmp_path.iterdir()] == ["model"]


def test_progress_is_reported_in_order(checkpoint: Path, tmp_path: Path) -> None:
    told: list[tuple[str, float]] = []
    whisper.convert(checkpoint, tmp_path / "b", lambda stage, share: told.append((stage, share)))
    assert [stage for stage, _ in told] == ["encoder", "cross", "decoder", "done"]
    assert [share for _, share in told] == sorted(share for _, share in told)


@pytest.mark.parametrize(("text", "message"), [("{", "not valid JSON"), ("[]", "no JSON object")])
def test_a_damaged_configuration_is_named(tmp_path: Path, text: str, message: str) -> None:
    source = tiny_whisper.build(tmp_path / "a")
    (source / "config.json").write_text(text, encoding="utf-8")
    with pytest.raises(StoreError, match=message):
        whisper.convert(source, tmp_path / "b")


def test_a_place_that_cannot_be_written_is_named(checkpoint: Path, tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("a file", encoding="utf-8")
    with pytest.raises(StoreError, match="cannot be written"):
        whisper.convert(checkpoint, tmp_path / "taken" / "model")


def test_a_missing_package_is_named_with_its_command(
    monkeypatch: pytest.MonkeyPatch, checkpoint: Path, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(StoreError, match="pip install onnx"):
        whisper.convert(checkpoint, tmp_path / "b")


@pytest.mark.slow
def test_memory_stays_that_of_a_few_matrices(tmp_path: Path) -> None:
    """The largest matrix is held once as float32, and once more at most while it is turned round."""
    import tracemalloc

    source = tiny_whisper.build(tmp_path / "a", stored="float16")
    tracemalloc.start()
    whisper.convert(source, tmp_path / "b")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2.2 * 4 * tiny_whisper.VOCABULARY * tiny_whisper.WIDTH


@pytest.mark.slow
@pytest.mark.parametrize("part", whisper.PARTS)
def test_every_matrix_of_the_small_form_is_in_eight_bits(files: Mapping[str, Path], part: str) -> None:
    onnx = graph.load_onnx()
    exact, small = (onnx.load(str(files[part + end])).graph for end in ("", whisper.INT8))
    weights = {one.name: onnx.numpy_helper.to_array(one) for one in (*exact.initializer, *small.initializer)}
    products = [node for node in small.node if node.op_type == "DynamicQuantizeMatMul"]
    assert not [node for node in small.node if node.op_type in ("MatMul", "Gemm") and set(node.input) & set(weights)]
    names = {f"{name}/weight": name for name in (node.input[1].removesuffix("/int8") for node in products)}
    assert {*names} - {*weights} <= {"projection/weight"}
    for weight, name in names.items():
        whole = weights[weight] if weight in weights else weights["embeddings"].T
        scale, rounded = weights[f"{name}/scale"], weights[f"{name}/int8"]
        assert (numpy.abs(rounded * scale - whole) <= 0.501 * scale).all()
        assert numpy.abs(rounded).max() == 127
