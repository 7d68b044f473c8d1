"""Expected memory: learned, estimated, by the catalogue's figures, by size."""

from __future__ import annotations

import dataclasses
import logging
from pathlib import Path

import pytest
from support.cases import each

from edgeserve.engine import Footprint, ModelSpec
from edgeserve.errors import EngineFailure
from edgeserve.fit import memory
from edgeserve.hosts.steps import WORKER
from edgeserve.jobs import INFO
from edgeserve.memory.peaks import Peaks
from edgeserve.models import catalog
from edgeserve.models.stored import StoredModel

ENTRY = catalog.find("qwen3-1.7b")
STORED = StoredModel(ENTRY.name, "llm", INFO["llm"].engine, {"model": Path("m.gguf")}, 5, options={"system": "S"})


def estimate(spec: ModelSpec) -> Footprint:
    assert spec.options == {"system": "S"}
    return Footprint(7, 8, 9)


def test_a_learned_peak_comes_first() -> None:
    peaks = Peaks()
    peaks.learn(ModelSpec("llm", ENTRY.name, "", options={"context": 1}), Footprint(1, 2, 3))
    assert memory.expected(ENTRY, STORED, peaks, estimate) == memory.Expected(Footprint(1, 2, 3), "learned")


def test_then_the_estimate_of_the_engine() -> None:
    assert memory.expected(ENTRY, STORED, Peaks(), estimate) == memory.Expected(Footprint(7, 8, 9), "estimated")


def test_a_damaged_model_is_expected_from_the_catalogue(caplog: pytest.LogCaptureFixture) -> None:
    def fail(spec: ModelSpec) -> Footprint:
        raise EngineFailure("not a GGUF file")

    with caplog.at_level(logging.WARNING):
        found = memory.expected(ENTRY, STORED, Peaks(), fail)
    assert found == memory.expected(ENTRY, None, Peaks())
    assert found.origin == "catalogue"
    assert "the memory of qwen3-1.7b is expected from the catalogue: not a GGUF file" in caplog.text


def test_an_engine_in_a_process_of_its_own_takes_that_process_too(monkeypatch: pytest.MonkeyPatch) -> None:
    voice = catalog.find("hibari")
    for pays, own in ((True, WORKER), (False, 0)):
        monkeypatch.setattr(memory, "pays", lambda job, pays=pays: pays)
        found = memory.expected(voice, None, Peaks()).footprint
        assert found.private - memory.by_entry(voice).footprint.private == own


def test_a_model_without_a_shape_is_expected_by_its_size() -> None:
    found = memory.by_entry(dataclasses.replace(ENTRY, shape={}))
    assert found.origin == "size"
    assert found.footprint.mapped == ENTRY.size_bytes
    assert found.footprint.private == pytest.approx(0.3 * ENTRY.size_bytes, rel=1e-6)


def test_a_picture_comes_on_top() -> None:
    seeing = catalog.find("smolvlm-256m")
    with_picture = memory.by_entry(seeing).footprint
    assert with_picture.private > seeing.sizes["mmproj"], "the projector is read, not mapped"
    assert with_picture.per_request > 0


def test_a_companion_has_no_memory_of_its_own() -> None:
    with pytest.raises(ValueError, match="silero-vad has no engine"):
        memory.by_entry(catalog.find("silero-vad"))


@each("name", [name for name, one in catalog.MODELS.items() if one.job != "vad"])
def test_every_model_of_the_catalogue_has_an_expectation(name: str) -> None:
    entry = catalog.MODELS[name]
    found = memory.by_entry(entry).footprint
    assert 0.4 * entry.size_bytes < found.total < 5 * entry.size_bytes + 300e6
