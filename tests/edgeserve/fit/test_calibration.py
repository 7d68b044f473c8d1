"""The measurement: kept for its machine, done again for another, and never fatal because of a model."""

from __future__ import annotations

import dataclasses
import json
import logging
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from edgeserve.errors import EngineFailure
from edgeserve.fit import calibration
from edgeserve.fit.calibration import Calibration
from edgeserve.fit.speed import Rates
from edgeserve.models.stored import StoredModel

MODEL = StoredModel("tiny", "llm", "engines.llama.chat:LlamaChat", {"model": Path("/m.gguf")}, 1_000_000)
GOOD = {"bandwidth": 1e9, "operations": 2e9, "token_seconds": 0.005}


def told(commands: list[list[str]], *answers: object) -> calibration.Run:
    left = iter(answers)

    def run(command: Sequence[str]) -> str:
        commands.append(list(command))
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer)

    return run


def test_a_model_gives_the_fixed_share_of_a_token() -> None:
    commands: list[list[str]] = []
    found = calibration.measure(MODEL, told(commands, GOOD))
    assert found.model == "tiny"
    assert found.rates == Rates(1e9, 2e9, pytest.approx(0.005 - 0.001))
    assert commands[0][1:3] == ["-m", "edgeserve.fit.trial"]
    assert json.loads(commands[0][3])["files"] == {"model": "/m.gguf"}


def test_a_token_that_took_less_than_its_bytes_leaves_no_share() -> None:
    assert calibration.measure(MODEL, told([], {**GOOD, "token_seconds": 0.0001})).rates.token_seconds == 0


def test_without_a_model_no_token_is_timed() -> None:
    commands: list[list[str]] = []
    found = calibration.measure(None, told(commands, {"bandwidth": 1e9, "operations": 2e9}))
    assert (found.model, found.rates) == ("", Rates(1e9, 2e9))
    assert commands[0][3] == "{}"


@pytest.mark.parametrize(
    "failure",
    [
        subprocess.CalledProcessError(-6, "python", stderr="llama.cpp\naborted"),
        subprocess.TimeoutExpired("python", 120),
        OSError("no memory"),
        {"operations": 1.0},
        {"bandwidth": float("nan"), "operations": 1.0},
        [],
    ],
)
def test_a_model_that_fails_is_left_out(failure: object, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = calibration.measure(MODEL, told([], failure, GOOD))
    assert (found.model, found.rates.token_seconds) == ("", 0.0)
    assert "the tokens of tiny could not be timed" in caplog.text


def test_a_machine_that_cannot_be_measured_is_an_error() -> None:
    wrong = subprocess.CalledProcessError(1, "python", stderr="Traceback\nImportError: numpy")
    with pytest.raises(EngineFailure, match=r"could not be measured: .*ImportError: numpy"):
        calibration.measure(None, told([], wrong))


def here(rates: Rates = Rates(1.0, 2.0, 3.0)) -> Calibration:  # noqa: B008 - frozen
    return Calibration(calibration.cpu.name(), calibration.this_machine(), rates, "tiny")


def test_figures_are_kept_for_this_machine_only(tmp_path: Path) -> None:
    path = tmp_path / "data" / calibration.FILE
    assert calibration.read(path) is None
    calibration.keep(path, here())
    assert calibration.read(path) == here()
    for other in ({"processor": "Z80"}, {"machine": "64 cores, x"}):
        calibration.keep(path, dataclasses.replace(here(), **other))
        assert calibration.read(path) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"rates": 1}', '{"rates": {}}', "\x00"])
def test_a_damaged_file_is_measured_anew(tmp_path: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    path = tmp_path / calibration.FILE
    path.write_text(text)
    assert calibration.read(path) is None
    assert "it is measured anew" in caplog.text


def test_a_folder_that_cannot_be_written_is_logged(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "file").touch()
    calibration.keep(tmp_path / "file" / calibration.FILE, here())
    assert "is measured again next time" in caplog.text


@pytest.mark.slow
def test_this_machine_is_measured_in_a_process_of_its_own() -> None:
    found = calibration.measure(None)
    assert found.rates.bandwidth > 1e8
    assert found.rates.operations > 1e8
