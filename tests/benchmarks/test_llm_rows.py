"""One row of the comparison: its pairs, its line, and the model that it is measured with."""

from __future__ import annotations

import argparse
import json
import subprocess
from pathlib import Path

import pytest
from benchmarks import llm_rows, synthetic
from benchmarks.llm_scenes import Scenes

PORTS = {"ours": 1, "theirs": 2}


def test_the_first_pair_warms_up_and_who_is_first_alternates() -> None:
    asked: list[tuple[int, int]] = []

    def scene(port: int, turn: int) -> dict[str, float]:
        asked.append((turn, port))
        return {"rate 1": 10.0 * port + turn}

    results = llm_rows.measure(PORTS, {"1 clients": scene}, pairs=2)
    assert asked == [(0, 2), (0, 1), (1, 1), (1, 2), (2, 2), (2, 1)]
    (row,) = results.rows()
    assert row.ratios == (11 / 21, 12 / 22)
    (line,) = llm_rows.lines(results, "/tmp/qwen3-0.6b-q4_0.gguf", busy=True)
    found = json.loads(line)
    assert (found["model"], found["busy"], found["figure"], found["pairs"]) == ("qwen3-0.6b-q4_0", True, "rate 1", 2)
    assert found["least"] <= found["ratio"] <= found["most"]


def test_every_row_is_a_scene() -> None:
    assert set(llm_rows.ROWS.values()) == set(Scenes(()).all())


def test_a_row_is_asked_for_by_its_name() -> None:
    parser = argparse.ArgumentParser()
    llm_rows.add_arguments(parser)
    given = parser.parse_args(["--row", "4", "--busy", "--pairs", "3"])
    assert (given.row, given.busy, given.pairs) == ("4", True, 3)


def test_a_synthetic_model_is_built_once_into_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    built: list[str] = []

    def build(out: Path, shape: synthetic.Shape, quant: str) -> Path:
        built.append(f"{shape.architecture} {quant}")
        out.write_bytes(b"GGUF")
        return out

    monkeypatch.setattr(synthetic, "build", build)
    folder = tmp_path / "kept"
    for _ in range(2):
        assert llm_rows.model("gemma-3-1b:Q4_K_M", folder) == str(folder / "gemma-3-1b-q4_k_m.gguf")
    assert built == ["gemma3 Q4_K_M"]
    assert [path.name for path in folder.iterdir()] == ["gemma-3-1b-q4_k_m.gguf"]
    assert llm_rows.model("smollm2", None) == "smollm2"
    with pytest.raises(ValueError, match="--cache"):
        llm_rows.model("gemma-3-1b:Q4_K_M", None)


def test_the_busy_process_ends_with_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    class Popen(subprocess.Popen[bytes]):
        def __init__(self, *arguments: object, **more: object) -> None:
            super().__init__(*arguments, **more)  # type: ignore[call-overload]
            started.append(self)

    monkeypatch.setattr(subprocess, "Popen", Popen)
    with llm_rows.busy_process():
        assert started[0].poll() is None
    assert started[0].returncode is not None
