"""Estimates from file sizes and shapes of encoders."""

from __future__ import annotations

from pathlib import Path

from support.cases import each

from edgeserve.engine import ModelSpec
from edgeserve.memory.estimate import ENCODERS, heuristic, vision_overhead
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


@each("name", sorted(ENCODERS))
def test_overhead_grows_with_the_projector(name: str) -> None:
    base = vision_overhead(name, 0)
    assert 10 * MB < base < 5 * GB
    assert vision_overhead(name, MB) == base + MB
