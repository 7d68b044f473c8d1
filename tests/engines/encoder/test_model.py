"""An encoder's files and graph, before and while it is open."""

from __future__ import annotations

from pathlib import Path

import pytest
from support import graphs
from support.tiny_bert_onnx import write_onnx

from edgeserve.engine import ModelSpec, Rung
from edgeserve.engines.encoder.model import EncoderFiles, prepare
from edgeserve.engines.encoder.rerank import OnnxRerank
from edgeserve.engines.onnx.prepare import FOLDER
from edgeserve.errors import EngineFailure

ENGINE = "edgeserve.engines.encoder.rerank:OnnxRerank"


def spec(files: dict[str, Path], **options: object) -> ModelSpec:
    return ModelSpec("rerank", "tiny", ENGINE, files, options=options)


@pytest.mark.slow
def test_a_pull_prepares_the_graph_and_its_weights_are_mapped(tmp_path: Path) -> None:
    files, told = write_onnx(tmp_path, head=("cls.output.weight",)), list[tuple[int, int]]()
    prepare(spec(files), lambda done, total: told.append((done, total)))
    assert told == [(1, 1)]
    engine = OnnxRerank(spec(files))
    assert tmp_path / FOLDER in engine.access().read
    assert all(FOLDER in path.parts or path.suffix == ".json" for path in engine.prefetch_files())
    engine.open()
    assert engine.footprint().mapped == 0
    engine.heat()
    assert engine.footprint().mapped > 10_000
    engine.park()
    assert (engine.rung, engine.footprint().mapped) == (Rung.WARM, 0)
    engine.close()


@pytest.mark.parametrize("role", ["model", "tokenizer", "config"])
def test_a_missing_file_is_named(tmp_path: Path, role: str) -> None:
    files = write_onnx(tmp_path, head=("cls.output.weight",))
    del files[role]
    engine = OnnxRerank(spec(files))
    with pytest.raises(EngineFailure, match=f"tiny has no file '{role}'"):
        engine.open()
    assert engine.rung is Rung.COLD


def test_a_graph_of_another_kind_is_refused(tmp_path: Path) -> None:
    files = write_onnx(tmp_path, head=("cls.output.weight",)) | {"model": graphs.build(tmp_path)}
    engine = OnnxRerank(spec(files))
    with pytest.raises(EngineFailure, match="takes x; an encoder takes tokens as input_ids"):
        engine.open()
    assert engine.rung is Rung.COLD


@pytest.mark.parametrize(("context", "longest"), [(64, 64), (0, 96), (4096, 96)])
def test_the_estimate_grows_with_the_longest_text(tmp_path: Path, context: int, longest: int) -> None:
    files = write_onnx(tmp_path, head=("cls.output.weight",))
    figures = EncoderFiles(spec(files, context=context)).estimate()
    assert figures.mapped == files["model"].stat().st_size
    assert figures.per_request == 4 * longest * (4 * 2 * longest + 8 * 32 + 6 * 64)
