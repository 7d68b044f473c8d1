from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.fuzz import corpus
from support.cases import each
from support.tiny_bert import HEAD, WIDTH, weights, write_bert

from edgeserve.engines.llama.gguf import Shape, read_contents, read_header, read_shape, whole
from edgeserve.errors import EngineFailure

FOUND = Path(__file__).parents[2] / "corpus" / "gguf"
BROKEN = {
    "array-beyond-any-offset": "an array of 18446744073709551615 values",
    "array-beyond-the-file": "its last array is longer than the file",
    "width-nan": "names no layers",
    "width-infinite": "names no layers",
    "width-negative": "names no layers",
}


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "model.gguf"
    path.write_bytes(corpus.headers()["llama"])
    return path


def test_the_shape_of_a_model(model: Path) -> None:
    assert read_shape(model) == Shape(
        layers=1,
        width=corpus.WIDTH,
        feed_forward=corpus.WIDTH,
        key_value_width=corpus.WIDTH,
        vocabulary=corpus.WORDS,
        trained_context=64,
        window=0,
    )


@each("name", BROKEN)
def test_a_header_that_cannot_be_is_refused(name: str) -> None:
    with pytest.raises(EngineFailure, match=BROKEN[name]):
        read_shape(FOUND / name)


def test_a_vocabulary_that_is_no_list_counts_as_none() -> None:
    assert read_shape(FOUND / "tokens-a-text").vocabulary == 32_000


def test_a_cut_header_is_refused_wherever_it_is_cut(model: Path) -> None:
    data = model.read_bytes()
    for size in range(0, 1000, 7):
        model.write_bytes(data[:size])
        with pytest.raises(EngineFailure, match="GGUF"):
            read_header(model)


@each("value", [float("nan"), float("inf"), -1, "8", None])
def test_a_value_that_is_no_size_gives_the_default(value: object) -> None:
    assert whole({"key": value}, "key", 7) == 7
    assert whole({"key": 8.0}, "key", 7) == 8


def test_the_names_of_the_tensors(tmp_path: Path) -> None:
    path = write_bert(tmp_path / "bert.gguf", None, head=tuple(HEAD))
    assert set(read_contents(path).tensors) == set(weights(1, tuple(HEAD)))
    data = path.read_bytes()
    end = data.index(b"cls.output.bias") + 10
    path.write_bytes(data[:end])
    with pytest.raises(EngineFailure, match="not a complete GGUF file"):
        read_contents(path)


def test_the_bytes_of_the_tensors_fill_the_file(tmp_path: Path) -> None:
    path = write_bert(tmp_path / "bert.gguf", None)
    contents = read_contents(path)
    sizes = contents.bytes_of()
    assert sizes["blk.0.attn_q.weight"] == 4 * WIDTH * WIDTH
    assert sum(sizes.values()) == contents.data
    assert min(sizes.values()) > 0


def test_a_file_of_too_many_tensors_is_refused(model: Path) -> None:
    data = bytearray(model.read_bytes())
    data[8:16] = (1 << 40).to_bytes(8, "little")
    model.write_bytes(data)
    with pytest.raises(EngineFailure, match="1099511627776 tensors cannot be read"):
        read_contents(model)
