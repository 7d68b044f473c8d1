"""The small JSON files of an encoder, and those that are none."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from edgeserve.engines.encoder.config import LARGEST_FILE, Shape, read_pooling, read_shape
from edgeserve.errors import EngineFailure


def written(folder: Path, value: Any) -> Path:
    path = folder / "config.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    return path


BERT = {"hidden_size": 384, "num_attention_heads": 12, "intermediate_size": 1536, "max_position_embeddings": 512}


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({}, Shape(512, 384, 12, 1536, 30_522)),
        (
            {"model_type": "xlm-roberta", "max_position_embeddings": 514, "pad_token_id": 1},
            Shape(512, 384, 12, 1536, 30_522),
        ),
        ({"model_type": "mpnet", "max_position_embeddings": 514}, Shape(512, 384, 12, 1536, 30_522)),
    ],
)
def test_the_shape_of_a_model(tmp_path: Path, more: dict[str, Any], expected: Shape) -> None:
    assert read_shape(written(tmp_path, BERT | more)) == expected


def test_names_of_distilbert_and_defaults(tmp_path: Path) -> None:
    assert read_shape(written(tmp_path, {"dim": 64, "n_heads": 4, "hidden_dim": 100, "vocab_size": 9})) == Shape(
        512, 64, 4, 100, 9
    )
    assert read_shape(written(tmp_path, {"hidden_size": 10})) == Shape(512, 10, 12, 40, 30_522)


@pytest.mark.parametrize("value", [0, -1, 1e300, "many", None, [], 1 << 40])
def test_a_number_that_is_no_size_is_refused(tmp_path: Path, value: Any) -> None:
    with pytest.raises(EngineFailure, match=r"config\.json: max_position_embeddings is "):
        read_shape(written(tmp_path, BERT | {"max_position_embeddings": value}))


@pytest.mark.parametrize("value", [-1, -514, 513, 1e3, "1", True, [1]])
def test_a_padding_token_that_leaves_no_position_is_refused(tmp_path: Path, value: Any) -> None:
    config = BERT | {"model_type": "xlm-roberta", "max_position_embeddings": 514, "pad_token_id": value}
    with pytest.raises(EngineFailure, match=r"config\.json: pad_token_id is .* number from 0 to 512, as .* 514 pos"):
        read_shape(written(tmp_path, config))


def test_the_padding_token_shortens_the_longest_text(tmp_path: Path) -> None:
    config = BERT | {"model_type": "roberta", "max_position_embeddings": 514}
    assert read_shape(written(tmp_path, config | {"pad_token_id": None})).positions == 512
    assert read_shape(written(tmp_path, config | {"pad_token_id": 512})).positions == 1


@pytest.mark.parametrize("text", ["", "[]", "{", "\x00", "[" * 100_000, '"x"'])
def test_a_file_that_is_no_object(tmp_path: Path, text: str) -> None:
    with pytest.raises(EngineFailure, match="no JSON"):
        read_shape(written(tmp_path, text))
    with pytest.raises(EngineFailure, match="no such file"):
        read_shape(tmp_path / "none.json")


@pytest.mark.parametrize(
    "modes", [{}, {"pooling_mode_max_tokens": True}, {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}]
)
def test_a_pooling_that_is_not_one_of_ours(tmp_path: Path, modes: dict[str, bool]) -> None:
    with pytest.raises(EngineFailure, match='or set pooling = "mean"'):
        read_pooling(written(tmp_path, modes))


def test_a_model_without_the_file_is_pooled_by_the_mean(tmp_path: Path) -> None:
    assert read_pooling(None) == "mean"
    assert read_pooling(written(tmp_path, {"pooling_mode_cls_token": True, "pooling_mode_max_tokens": False})) == "cls"


def test_a_file_that_is_too_large_for_a_configuration_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text("{}")
    assert read_shape(path).width == 768
    path.write_text("{}" + " " * LARGEST_FILE)
    with pytest.raises(EngineFailure, match=r"config\.json: 1048578 bytes, expected at most 1048576"):
        read_shape(path)
