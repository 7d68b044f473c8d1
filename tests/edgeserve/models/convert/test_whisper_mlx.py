"""The conversion of Whisper for MLX: its files, and mlx-whisper accepts them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy
import pytest
from support import tiny_whisper
from support.mlx import needs_mlx

from edgeserve.errors import StoreError
from edgeserve.models.convert import whisper_mlx
from edgeserve.models.convert.ctranslate2 import Checkpoint


def tensors(path: Path) -> dict[str, Any]:
    """As the format's specification says, with no library."""
    data = path.read_bytes()
    length = int.from_bytes(data[:8], "little")
    found = {}
    for name, one in json.loads(data[8 : 8 + length]).items():
        start, end = (8 + length + place for place in one["data_offsets"])
        dtype = {"F16": "<f2", "I32": "<i4"}[one["dtype"]]
        found[name] = numpy.frombuffer(data[start:end], dtype).reshape(one["shape"])
    return found


@pytest.fixture(scope="module")
def converted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mlx")
    whisper_mlx.convert(tiny_whisper.build(folder / "checkpoint"), folder / "model")
    return folder


def test_matrices_are_those_of_the_checkpoint(converted: Path) -> None:
    source = Checkpoint(converted / "checkpoint" / "model.bin")
    found = tensors(converted / "model" / "weights.safetensors")
    width = tiny_whisper.WIDTH
    fused = source.weight("decoder/layer_1/attention/linear_1/weight").astype("<f2")
    assert (found["decoder.blocks.1.cross_attn.key.weight"] == fused[:width]).all()
    assert (found["decoder.blocks.1.cross_attn.value.weight"] == fused[width:]).all()
    bias = source.weight("encoder/layer_0/self_attention/linear_0/bias").astype("<f2")
    assert (found["encoder.blocks.0.attn.value.bias"] == bias[2 * width :]).all()
    convolution = source.weight("encoder/conv1/weight").astype("<f2")
    assert (found["encoder.conv1.weight"] == convolution.transpose(0, 2, 1)).all()
    assert found["alignment_heads"].tolist() == [[0, 1], [1, 0]]


def test_dimensions(converted: Path) -> None:
    told = json.loads((converted / "model" / "config.json").read_text(encoding="utf-8"))
    assert (told["n_mels"], told["n_audio_ctx"], told["n_text_ctx"]) == (80, 1500, 448)
    assert (told["n_audio_layer"], told["n_text_layer"], told["n_text_head"]) == (2, 2, 2)
    assert told["n_vocab"] == tiny_whisper.VOCABULARY


@pytest.mark.slow
@needs_mlx
def test_the_model_of_mlx_whisper_has_just_these_parameters(converted: Path) -> None:
    from mlx.utils import tree_flatten
    from mlx_whisper.load_models import load_model

    model = load_model(str(converted / "model"))
    expected = {name: tuple(array.shape) for name, array in tree_flatten(model.parameters())}
    found = tensors(converted / "model" / "weights.safetensors")
    assert {name: array.shape for name, array in found.items()} == expected


@pytest.mark.slow
@pytest.mark.parametrize("stored", ["float16", "bfloat16", "int8"])
def test_other_types_are_read_too(tmp_path: Path, converted: Path, stored: str) -> None:
    checkpoint = tiny_whisper.build(tmp_path / "checkpoint", stored=stored)
    files = whisper_mlx.convert(checkpoint, tmp_path / "model")
    exact, found = tensors(converted / "model" / "weights.safetensors"), tensors(files["weights"])
    name = "encoder.blocks.1.mlp1.weight"
    assert found[name].shape == exact[name].shape
    assert abs(found[name] - exact[name]).max() < 0.02


def test_a_checkpoint_that_names_no_heads_is_aligned_by_the_upper_layers(tmp_path: Path) -> None:
    checkpoint = tiny_whisper.build(tmp_path / "checkpoint")
    (checkpoint / "config.json").write_text("{}", encoding="utf-8")
    files = whisper_mlx.convert(checkpoint, tmp_path / "model")
    assert tensors(files["weights"])["alignment_heads"].tolist() == [[1, 0], [1, 1]]


def test_a_conversion_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    source, out = tiny_whisper.build_damaged(tmp_path / "checkpoint"), tmp_path / "model"
    with pytest.raises(StoreError, match="no variable decoder/layer_norm/gamma"):
        whisper_mlx.convert(source, out)
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
