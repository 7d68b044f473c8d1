"""The memory of language models that are not here, compared with the estimate for one that is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from edgeserve.engine import Listed, ModelSpec
from edgeserve.engines.llama.expected import footprint
from edgeserve.engines.llama.options import DEFAULT_CONTEXT
from edgeserve.jobs import INFO
from edgeserve.models import catalog
from edgeserve.named import make_engine

SHAPE = {
    "layers": 2,
    "width": 64,
    "feed_forward": 128,
    "key_value_width": 32,
    "vocabulary": 100,
    "trained_context": 512,
}


def listed(**more: object) -> Listed:
    given = {"sizes": {"model": 1000}, "size_bytes": 1000, "shape": SHAPE, **more}
    return Listed("llm", **given)  # type: ignore[arg-type]


def test_a_model_without_a_shape_has_no_expectation() -> None:
    assert footprint(listed(shape={})) is None


def test_the_file_is_mapped_and_a_projector_is_read() -> None:
    alone, seeing = footprint(listed()), footprint(listed(sizes={"model": 1000, "mmproj": 300}, size_bytes=1300))
    assert alone
    assert seeing
    assert alone.mapped == seeing.mapped == 1000
    assert seeing.private == alone.private + 300


def test_a_file_of_unknown_size_is_what_the_others_leave() -> None:
    found = footprint(listed(sizes={"mmproj": 300}, size_bytes=1000))
    assert found
    assert found.mapped == 700


def test_options_count() -> None:
    short, long = footprint(listed(options={"context": 256})), footprint(listed(options={"context": 512}))
    assert short
    assert long
    assert long.private > short.private


def test_a_context_without_a_size_counts_with_the_tokens_that_it_must_have() -> None:
    shape = SHAPE | {"trained_context": 131_072}
    assert footprint(listed(shape=shape)) == footprint(listed(shape=shape, options={"context": DEFAULT_CONTEXT}))
    assert footprint(listed(shape=shape | {"trained_context": 512})) == footprint(listed(options={"context": 512}))


@pytest.mark.models
def test_the_starter_model_is_expected_as_llama_lays_it_out(pulled: Callable[[str], Mapping[str, Path]]) -> None:
    entry = catalog.find("smollm2")
    found = footprint(Listed("llm", entry.sizes, entry.size_bytes, entry.parameters, entry.shape))
    least = {"context": DEFAULT_CONTEXT}
    exact = make_engine(ModelSpec("llm", entry.name, INFO["llm"].engine, pulled("smollm2"), options=least)).estimate()
    assert found
    assert found.mapped == exact.mapped
    assert found.total == pytest.approx(exact.total, rel=0.15)
