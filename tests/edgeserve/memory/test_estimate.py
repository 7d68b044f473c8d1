"""Estimates from sizes and shapes."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgeserve.engine import ModelSpec
from edgeserve.memory.estimate import ENCODERS, context_that_fits, heuristic, kv_bytes, vision_overhead
from edgeserve.units import GB, MB


def file(path: Path, size: int) -> Path:
    with path.open("wb") as out:
        out.truncate(size)
    return path


def test_file_size_times_one_point_three(tmp_path: Path) -> None:
    model = file(tmp_path / "model.gguf", 1000 * MB)
    found = heuristic(ModelSpec("llm", "m", "e:E", {"model": model}))
    assert (found.mapped, found.private, found.per_request) == (1000 * MB, 300 * MB, 0)


def test_a_vision_model_takes_more_for_its_picture(tmp_path: Path) -> None:
    files = {"model": file(tmp_path / "m.gguf", 100 * MB), "mmproj": file(tmp_path / "p.gguf", 50 * MB)}
    unknown = heuristic(ModelSpec("vision", "m", "e:E", files))
    assert unknown.per_request == 100 * MB
    known = heuristic(ModelSpec("vision", "m", "e:E", files, options={"architecture": "gemma3"}))
    assert known.per_request == vision_overhead("gemma3", 50 * MB) > GB


def test_a_model_whose_files_are_missing_takes_nothing() -> None:
    assert heuristic(ModelSpec("llm", "m", "e:E", {"model": Path("gone")})).total == 0


@pytest.mark.parametrize("name", sorted(ENCODERS))
def test_overhead_grows_with_projector_and_picture(name: str) -> None:
    base = vision_overhead(name, 0)
    assert 10 * MB < base < 5 * GB
    assert vision_overhead(name, MB) == base + MB
    assert vision_overhead(name, 0, image_tokens=100, kv_token_bytes=1000) == base + 100_000


def test_a_context_takes_what_the_formula_says() -> None:
    """SmolLM2-135M: 30 layers, 3 KV heads of 64: 45 MB for 2,048 tokens at f16."""
    assert kv_bytes(30, 3, 64, 2048) == 30 * 2 * 3 * 64 * 2048 * 2 == 45 * MB
    assert kv_bytes(30, 3, 64, 2048, 1.0625) == int(45 * MB * 1.0625 / 2)


@given(st.integers(0, 1 << 34), st.integers(1, 100), st.integers(1, 32), st.integers(32, 256))
def test_the_context_that_fits_fits_and_no_longer_one_does(free: int, layers: int, heads: int, dim: int) -> None:
    context = context_that_fits(free, layers, heads, dim)
    assert context % 256 == 0
    assert kv_bytes(layers, heads, dim, context) <= free
    assert kv_bytes(layers, heads, dim, context + 256) > free
