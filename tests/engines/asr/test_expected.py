"""The memory of transcription models that are not here, compared with the estimate for one that is."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgeserve.engine import Listed, ModelSpec
from edgeserve.engines.asr import expected
from edgeserve.engines.asr.expected import footprint
from edgeserve.models import catalog
from edgeserve.models.store import Store
from edgeserve.named import make_engine

SHAPE = {"width": 384, "encoder_layers": 4, "decoder_layers": 4, "decoder_heads": 6}


def test_weights_take_the_form_that_the_processor_gets(monkeypatch: pytest.MonkeyPatch) -> None:
    mapped = []
    for exact in (True, False):
        monkeypatch.setattr(expected, "exact", lambda exact=exact: exact)
        found = footprint(Listed("asr", {}, 0, 1_000_000, SHAPE))
        assert found
        mapped.append(found.mapped)
    assert mapped == [1_140_000, 4_000_000]


def test_without_figures_there_is_no_expectation() -> None:
    assert footprint(Listed("asr", {}, 100, 0, SHAPE)) is None
    assert footprint(Listed("asr", {}, 100, 1_000_000)) is None


def test_the_other_families_copy_their_graphs(tmp_path: Path) -> None:
    """The same figure as for files of that size."""
    entry = catalog.find("parakeet")
    found = footprint(Listed("asr", entry.sizes, entry.size_bytes, options=entry.options))
    files = {}
    for role, size in {"encoder": 600_000_000, "decoder": entry.size_bytes - 600_000_000, "vad": 1}.items():
        files[role] = tmp_path / role
        with files[role].open("wb") as file:
            file.truncate(size)
    engine = make_engine(ModelSpec("asr", "parakeet", entry.engine, files, options=entry.options))
    assert found == engine.estimate()


@pytest.mark.models
def test_the_starter_model_is_expected_as_its_engine_estimates_it(store: Store) -> None:
    entry = catalog.find("whisper-tiny.en")
    store.pull(entry.name)
    stored = store.find(entry.name)
    found = footprint(Listed("asr", entry.sizes, entry.size_bytes, entry.parameters, entry.shape))
    exact = make_engine(ModelSpec("asr", entry.name, stored.engine, stored.files)).estimate()
    assert found
    assert found.mapped == pytest.approx(exact.mapped, rel=0.1)
    assert found.total == pytest.approx(exact.total, rel=0.15)
