"""The engine prepares a pulled model for this machine, once."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support import tiny_whisper
from support.store import left

from edgeserve.engine import ModelSpec
from edgeserve.engines.asr import onnx
from edgeserve.engines.asr.whisper import files as whisper_files
from edgeserve.models import catalog
from edgeserve.models.sources.source import Progress
from edgeserve.models.store import Store


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Store:
    """An empty store, where nothing comes with a model unasked."""
    monkeypatch.setattr(catalog, "COMPANIONS", {})
    return Store(tmp_path / "models")


@pytest.mark.slow
def test_preparation_by_the_engine_is_reported_and_done_once(
    models: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepared: list[ModelSpec] = []

    def prepare(spec: ModelSpec, tell: Callable[[int, int], None]) -> None:
        prepared.append(spec)
        tell(1, 3)

    monkeypatch.setattr(onnx, "prepare", prepare, raising=False)
    told: list[Progress] = []
    stored = models.pull(str(tiny_whisper.build(tmp_path / "tiny")), progress=told.append)
    assert [spec.files for spec in prepared] == [stored.files]
    assert told[-1] == Progress("tiny", "prepare", 1, 3)
    models.pull(str(tmp_path / "tiny"))
    assert len(prepared) == 1


@pytest.mark.slow
def test_a_converted_model_is_prepared_for_this_machine(models: Store, tmp_path: Path) -> None:
    told: list[Progress] = []
    stored = models.pull(str(tiny_whisper.build(tmp_path / "tiny")), progress=told.append)
    assert [(one.done, one.total) for one in told if one.stage == "prepare"] == [(1, 3), (2, 3), (3, 3)]
    prepared = stored.files["decoder"].parent / "prepared"
    spec = ModelSpec("asr", "tiny", "", stored.files)
    graphs = [path for path, _ in whisper_files.graphs(spec)]
    assert {path.name for path in prepared.iterdir()} == {path.name for path in graphs}
    engine = onnx.OnnxSpeechToText(spec)
    fetched = set(engine.prefetch_files())
    assert {path for path in fetched if prepared not in path.parents} == {
        stored.files["config"],
        stored.files["tokenizer"],
    }
    assert len(fetched) == 2 + 2 * 3
    shutil.rmtree(prepared)
    own = {stored.files["config"], stored.files["tokenizer"]}
    assert set(engine.prefetch_files()) == {*own, *graphs, *whisper_files.weights(spec)}
    models.remove("tiny")
    assert left(models) == []


def test_a_model_of_another_kind_needs_no_preparation(tmp_path: Path) -> None:
    told: list[int] = []
    spec = ModelSpec("asr", "parakeet", "", {"encoder": tmp_path / "encoder.onnx"}, options={"family": "nemo"})
    onnx.prepare(spec, lambda done, total: told.append(done))
    assert told == []
