"""Specifications of encoders on ONNX Runtime: their engines open the files that they name."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.tiny_bert import HEAD
from support.tiny_bert_onnx import write_onnx

from edgeserve import named, specification
from edgeserve.config import Config
from edgeserve.fit import tuned
from edgeserve.jobs import INFO, Job
from edgeserve.messages import EmbedRequest, RerankRequest
from edgeserve.model_settings import ModelSettings
from edgeserve.models.store import Store
from edgeserve.models.stored import StoredModel

ASKED = {"embedding": EmbedRequest(("cat",)), "rerank": RerankRequest("cat", ("rain",))}


@pytest.mark.slow
@pytest.mark.parametrize(("job", "head"), [("embedding", ()), ("rerank", tuple(HEAD))])
def test_an_encoder_in_a_folder_is_opened_and_asked(job: Job, head: Sequence[str], tmp_path: Path) -> None:
    """The record of measured settings is no file of theirs: they have none of these settings."""
    folder, store = tmp_path / "encoder", Store(tmp_path / "models")
    folder.mkdir()
    files = write_onnx(folder, head=head)
    form = tuned.Form({"repack": "on", "threads": 3}, 0.1, 100.0, 10.0)
    tuned.keep(tuned.path_of(store.root, "encoder"), tuned.record(4, form.settings, (form,), 0.0))
    config = Config(models={job: ModelSettings(job=job, model=str(folder))})
    (spec,) = specification.specs(config, store)
    assert (spec.files, spec.threads) == (files, None)
    engine: Any = named.make_engine(spec)
    engine.open()
    engine.heat()
    answer = engine.embed if job == "embedding" else engine.rerank
    assert list(answer(ASKED[job], threading.Event()))
    engine.close()


@pytest.mark.parametrize("vad", [True, False])
def test_a_model_without_its_detector_of_speech_says_so(
    vad: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    stored = StoredModel("whisper-tiny.en", "asr", INFO["asr"].engine, {}, 0)
    monkeypatch.setattr(specification, "find_all", lambda *ignored: {"asr": stored})
    settings = ModelSettings(job="asr", model="whisper-tiny.en", options={"vad": vad})
    list(specification.specs(Config(models={"asr": settings}), Store(tmp_path / "models")))
    warning = "asr runs without silero-vad, slower and less exact: edgeserve pull silero-vad"
    assert caplog.messages.count(warning) == vad
