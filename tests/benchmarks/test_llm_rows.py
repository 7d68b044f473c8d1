"""One row of the comparison: its pairs, its line, and the model that it is measured with."""

from __future__ import annotations

import argparse
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import cast

import pytest
from benchmarks import llm_rows, synthetic
from benchmarks.llm_scenes import Scenes
from benchmarks.pairs import Pair, Pairs
from benchmarks.process import Memory, ServerProcess

SUBJECT = "qwen3-0.6b-q4_0, weights mapped"


class Server:
    """A server, as far as a row asks it."""

    def __init__(self, port: int) -> None:
        self.port = port

    def memory(self) -> Memory:
        return Memory(1000.0, 100.0 * self.port, 0.0)


SERVERS = cast(Mapping[str, ServerProcess], {"ours": Server(1), "theirs": Server(2)})


def test_the_first_pair_warms_up_and_who_is_first_alternates() -> None:
    asked: list[tuple[int, int]] = []
    pairs = Pairs()

    def scene(port: int, turn: int) -> dict[str, float]:
        asked.append((turn, port))
        return {"rate 1": 10.0 * port + turn}

    llm_rows.measure(SERVERS, SUBJECT, "1", [1, 2], pairs, llm_rows.side("1", {"1 clients": scene}))
    assert asked == [(0, 2), (0, 1), (1, 1), (1, 2), (2, 2), (2, 1)]
    assert [(one.kind, one.case, one.turn, one.ours, one.other) for one in pairs.all] == [
        ("rate 1", "1", 1, 11.0, 21.0),
        ("rate 1", "1", 2, 12.0, 22.0),
    ]


def test_private_memory_is_read_after_answers() -> None:
    asked: list[int] = []

    def scene(port: int, turn: int) -> dict[str, float]:
        asked.append(port)
        return {"rate 4": 1.0}

    pairs = Pairs()
    llm_rows.measure(SERVERS, SUBJECT, "memory", [1], pairs, llm_rows.side("memory", {"4 clients": scene}))
    assert asked == [2, 1, 1, 2]
    assert [(one.kind, one.ours, one.other) for one in pairs.all] == [("private", 100.0, 200.0)]


def test_turns_that_are_kept_are_not_measured_again() -> None:
    pairs = Pairs()
    for turn in (1, 3):
        pairs.add(Pair(SUBJECT, "rate 1", "1", turn, 1.0, 1.0))
    assert llm_rows.missing(pairs, SUBJECT, ["1", "cold"], 3) == {"1": [2], "cold": [1, 2, 3]}
    assert llm_rows.missing(pairs, SUBJECT, ["1"], 1) == {}
    assert llm_rows.missing(pairs, "another", ["1"], 1) == {"1": [1]}


def test_every_row_is_a_scene() -> None:
    assert set(llm_rows.SCENES.values()) == set(Scenes(()).all())


def test_the_conditions_name_a_run() -> None:
    path = "/tmp/qwen3-0.6b-q4_0.gguf"
    assert llm_rows.subject(path, tuned=False, busy=False) == SUBJECT
    assert llm_rows.subject("smollm2", tuned=True, busy=True) == "smollm2, form as measured, beside a busy process"


def test_a_row_is_asked_for_by_its_name() -> None:
    parser = argparse.ArgumentParser()
    llm_rows.add_arguments(parser)
    given = parser.parse_args(["--row", "4", "cold", "--busy", "--pairs", "3"])
    assert (given.row, given.busy, given.pairs) == (["4", "cold"], True, 3)


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
