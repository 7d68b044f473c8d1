"""The output of ``edgeserve recommend``."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.commands import run, told

from edgeserve.commands import recommend as command
from edgeserve.fit import calibration, recommend
from edgeserve.fit.calibration import Calibration
from edgeserve.fit.speed import Rates, Speed


@pytest.fixture(autouse=True)
def measured(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Calls of the measurement, which takes seconds otherwise."""
    calls: list[object] = []
    figures = Calibration(calibration.cpu.name(), calibration.cpu.kind(), Rates(10e9, 100e9), "")
    monkeypatch.setattr(calibration, "measure", lambda model: calls.append(model) or figures)
    return calls


def test_the_best_of_each_job_is_marked(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("recommend", "--memory", "4096", environ=models) == 0
    out = capsys.readouterr().out
    rows = [line.split() for line in out.splitlines() if line.split()[:1] and line.split()[0] in ("llm", "tts", "asr")]
    assert next(row[1] for row in rows if row[0] == "llm") == "*"
    assert len([row for row in rows if row[0] == "llm"]) == command.SHOWN
    assert "models may take 3.0 GB of memory" in out
    assert "more models: --all, or --job NAME" in out
    assert "All at once, one model a job, in " in out
    assert out.splitlines()[-1].startswith("edgeserve pull ")


def test_one_job_is_shown_whole_with_the_reasons(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("recommend", "--job", "llm", "--memory", "2048", environ=models) == 0
    out = capsys.readouterr().out
    assert "qwen3-8b" in out
    assert "needs 5.1 GB; at most" in out
    assert "more models" not in out
    assert {line.split()[0] for line in out.splitlines()[4:20]} == {"llm"}


def test_the_measurement_is_announced_and_kept(
    models: dict[str, str], measured: list[object], capsys: pytest.CaptureFixture[str]
) -> None:
    for more, measures in (([], True), ([], False), (["--calibrate"], True)):
        before = len(measured)
        assert run("recommend", "--json", "--job", "tts", *more, environ=models) == 0
        captured = capsys.readouterr()
        assert (len(measured) > before) == measures
        assert ("[INFO] measuring" in captured.err) == measures
        assert json.loads(captured.out)["together"]["models"]


def test_rows_fit_a_terminal(
    models: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(command, "columns", lambda stream: 60)
    assert run("recommend", "--job", "llm", environ=models) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("llm ")]
    assert max(map(len, rows)) == 60
    assert rows[0].endswith("…")


def test_no_machine_is_larger_than_this_one(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("recommend", "--job", "tts", "--memory", str(10**9), environ=models) == 0
    assert "[INFO] this machine has " in capsys.readouterr().err


def test_a_machine_without_room_gets_1(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("recommend", "--job", "llm", "--memory", "64", environ=models) == 1
    assert capsys.readouterr().out.endswith("No model fits.\n")


@pytest.mark.parametrize("wrong", [["--memory", "0"], ["--job", "poetry"]])
def test_wrong_usage_is_2(models: dict[str, str], wrong: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        run("recommend", *wrong, environ=models)
    assert ended.value.code == 2
    (line,) = told(capsys)
    assert line.startswith("[ERROR] argument --")


@pytest.mark.parametrize(
    ("speed", "text"),
    [
        (None, "-"),
        (Speed(3.44, "times real time"), "3.4× real time"),
        (Speed(9.96, "tokens/s"), "10 tokens/s"),
        (Speed(12.3, "tokens/s", 99.0), "12 tokens/s"),
    ],
)
def test_speeds_in_words(speed: Speed | None, text: str) -> None:
    assert command.words(speed) == text


def test_the_figures_lie_beside_the_models(models: dict[str, str]) -> None:
    assert run("recommend", "--job", "tts", environ=models) == 0
    assert (Path(models["EDGESERVE_MODELS_DIR"]).parent / calibration.FILE).is_file()
    assert recommend.PEAKS == "memory.json"
