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
from edgeserve.models import catalog
from edgeserve.models.stored import StoredModel

ENTRY = catalog.find("smollm2")
MODEL = StoredModel(ENTRY.name, "llm", ENTRY.engine, {"model": Path("/m.gguf")}, 5)
GOOD = {"bandwidth": 20e9, "operations": 2e9, "token_seconds": 0.008, "token_seconds_alone": 0.012}


def told(commands: list[list[str]], *answers: object) -> calibration.Run:
    left = iter(answers)

    def run(command: Sequence[str]) -> str:
        commands.append(list(command))
        answer = next(left)
        if isinstance(answer, Exception):
            raise answer
        return json.dumps(answer)

    return run


def test_a_model_gives_the_weights_of_a_core_and_the_fixed_share_of_a_token() -> None:
    rates = calibration.rates_of(GOOD, ENTRY, 4)
    assert rates.weights == pytest.approx(4 * ENTRY.parameters / (0.62 * 0.012))
    assert rates.token_seconds == pytest.approx(0.008 - ENTRY.size_bytes / 20e9), "memory is the limit"
    one = calibration.rates_of(GOOD, ENTRY, 1)
    assert one.token_seconds == pytest.approx(0.008 - 0.62 * 0.012), "the core is the limit"


def test_a_busy_machine_does_not_make_tokens_slower_than_on_one_core() -> None:
    busy = calibration.rates_of({**GOOD, "token_seconds": 0.2}, ENTRY, 2)
    assert busy.token_seconds < 0.012


def test_a_token_that_took_less_than_its_bytes_leaves_no_share() -> None:
    assert calibration.rates_of({**GOOD, "token_seconds": 0.0001}, ENTRY, 1).token_seconds == 0


def test_the_model_is_timed_in_a_process_of_its_own() -> None:
    commands: list[list[str]] = []
    found = calibration.measure(MODEL, told(commands, GOOD))
    assert found.model == ENTRY.name
    assert found.rates == calibration.rates_of(GOOD, ENTRY, calibration.cores.usable())
    assert commands[0][1:4] == ["-P", "-m", "edgeserve.fit.trial"]
    assert json.loads(commands[0][4])["files"] == {"model": "/m.gguf"}


def test_without_a_model_no_token_is_timed() -> None:
    commands: list[list[str]] = []
    found = calibration.measure(None, told(commands, {"bandwidth": 1e9, "operations": 2e9}))
    assert (found.model, found.rates) == ("", Rates(1e9, 2e9))
    assert commands[0][4] == "{}"


@pytest.mark.parametrize(
    "failure",
    [
        subprocess.CalledProcessError(-6, "python", stderr="llama.cpp\naborted"),
        subprocess.TimeoutExpired("python", 120),
        OSError("no memory"),
        {"operations": 1.0},
        {"bandwidth": float("nan"), "operations": 1.0},
        {**GOOD, "token_seconds": float("inf")},
        {**GOOD, "token_seconds_alone": 0.0},
        [],
    ],
)
def test_a_model_that_fails_is_left_out(failure: object, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        found = calibration.measure(MODEL, told([], failure, GOOD))
    assert (found.model, found.rates.token_seconds) == ("", 0.0)
    assert f"the tokens of {ENTRY.name} could not be timed" in caplog.text


def test_a_machine_that_cannot_be_measured_is_an_error() -> None:
    wrong = subprocess.CalledProcessError(1, "python", stderr="Traceback\nImportError: numpy")
    with pytest.raises(EngineFailure, match=r"could not be measured: .*ImportError: numpy"):
        calibration.measure(None, told([], wrong))


def here(rates: Rates = Rates(1.0, 2.0, 3.0)) -> Calibration:  # noqa: B008 - frozen
    return Calibration(calibration.cpu.name(), calibration.cpu.kind(), rates, "tiny")


def test_figures_are_kept_for_this_machine_only(tmp_path: Path) -> None:
    path = tmp_path / "data" / calibration.FILE
    assert calibration.read(path) is None
    calibration.keep(path, here())
    assert calibration.read(path) == here()
    for other in ({"processor": "Z80"}, {"machine": "64 cores, x"}):
        calibration.keep(path, dataclasses.replace(here(), **other))
        assert calibration.read(path) is None


FIGURES = '{{"processor": "p", "machine": "m", "rates": {{"bandwidth": {}, "operations": 1, "weights": 1}}}}'


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "[]",
        '{"rates": 1}',
        '{"rates": {}}',
        "\x00",
        *(FIGURES.format(one) for one in ('"1"', "NaN", "0", "-1")),
    ],
)
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
