"""A models.toml that suits the machine, and the questions before it."""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import run, told

from edgeserve.commands import init
from edgeserve.config import load
from edgeserve.fit import calibration
from edgeserve.fit.calibration import Calibration
from edgeserve.fit.speed import Rates
from edgeserve.jobs import JOBS, STARTER
from edgeserve.models import catalog

FILE = Path("models.toml")
MEMORY = "EDGESERVE_OVERRIDE_MEMORY_MB"


@pytest.fixture
def bare(models: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """A machine of 4 GB without a models.toml, whose speed is known."""
    FILE.unlink()
    figures = Calibration(calibration.cpu.name(), calibration.cpu.kind(), Rates(10e9, 100e9))
    monkeypatch.setattr(calibration, "measure", lambda model: figures)
    return {**models, MEMORY: "4096"}


@pytest.fixture
def typed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Lines that a person types; a question without a line fails the test."""
    lines: list[str] = []

    def answers() -> Iterator[str]:
        while lines:
            yield lines.pop(0)

    monkeypatch.setattr(init, "asks", lambda: True)
    monkeypatch.setattr(init, "answer", lambda question: next(answers()))
    monkeypatch.setattr(init, "ask", lambda question: next(answers()) == "y")
    return lines


def jobs() -> dict[str, str]:
    return {name: one.model for name, one in load({}, path=FILE).models.items()}


def test_the_largest_models_that_run_together_are_written(
    bare: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("init", "--yes", environ=bare) == 0
    out = capsys.readouterr().out
    found = jobs()
    assert set(found) == set(JOBS)
    assert catalog.find(found["llm"]).size_bytes > catalog.find(STARTER["llm"]).size_bytes
    text = FILE.read_text()
    assert text.startswith("# Written by `edgeserve init` for ")
    assert "where models may take 3.0 GB of memory" in text
    assert "tokens/s" in text
    assert "unverified" in text
    assert out.splitlines()[0] == "models.toml: written"
    assert out.splitlines()[-1].startswith("Next: edgeserve serve ")


def test_a_smaller_machine_gets_smaller_models(bare: dict[str, str]) -> None:
    sizes = []
    for memory in ("2048", "8192"):
        assert run("init", "--yes", "--force", "--job", "llm", environ={**bare, MEMORY: memory}) == 0
        sizes.append(catalog.find(jobs()["llm"]).size_bytes)
    assert sizes[0] < sizes[1]


def test_the_starter_models_ask_for_no_measurement(
    bare: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(init, "calibrated", None)
    assert run("init", "--yes", "--starter", "-o", "mine.toml", environ=bare) == 0
    found = load({}, path=Path("mine.toml"))
    assert {name: one.model for name, one in found.models.items()} == dict(STARTER)
    out = capsys.readouterr().out
    assert "there is no starter model for: vision" in out
    assert "Next: edgeserve serve --config mine.toml" in out


def test_a_file_that_is_there_stays(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = FILE.read_text()
    assert run("init", "--yes", "--starter") == 1
    assert told(capsys) == ["[ERROR] models.toml is there already; --force replaces it, -o FILE writes another"]
    assert FILE.read_text() == before
    assert run("init", "--yes", "--starter", "--force") == 0
    assert FILE.read_text() != before


def test_two_questions_are_asked(bare: dict[str, str], typed: list[str]) -> None:
    typed += ["llm, tts", "n"]
    assert run("init", environ=bare) == 0
    assert set(jobs()) == {"llm", "tts"}
    assert typed == []
    assert load({}, path=FILE).server.host == "127.0.0.1"


def test_a_wrong_job_is_asked_again(bare: dict[str, str], typed: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    typed += ["llm poetry", "tts", "n"]
    assert run("init", environ=bare) == 0
    assert set(jobs()) == {"tts"}
    assert "poetry: no job" in capsys.readouterr().err


def test_an_empty_line_takes_every_job(bare: dict[str, str], typed: list[str]) -> None:
    typed += ["", "n"]
    assert run("init", environ=bare) == 0
    assert set(jobs()) == set(JOBS)


def test_other_machines_get_a_key_that_is_in_a_file_for_its_owner_only(
    bare: dict[str, str], typed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    typed += ["tts", "y"]
    assert run("init", environ=bare) == 0
    server = load({}, path=FILE).server
    assert server.host == "0.0.0.0"
    assert len(server.api_key) >= 32
    assert stat.S_IMODE(FILE.stat().st_mode) == 0o600
    assert server.api_key not in "".join(capsys.readouterr())
    assert run("init", "--yes", "--share", "--force", "--job", "tts", environ=bare) == 0
    assert load({}, path=FILE).server.api_key != server.api_key


def test_without_a_terminal_nothing_is_asked(bare: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(init, "answer", None)
    assert run("init", environ=bare) == 0
    assert set(jobs()) == set(JOBS)


def test_a_machine_for_which_nothing_suits(bare: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("init", "--yes", "--job", "llm", environ={**bare, MEMORY: "64"}) == 1
    assert capsys.readouterr().out.startswith("No model for chat suits this machine: ")
    assert not FILE.exists()


def test_nothing_is_left_of_a_file_that_cannot_be_written(settings: Path) -> None:
    (settings / "taken").mkdir()
    with pytest.raises(OSError, match="taken"):
        init.write(settings / "taken", "", secret=False)
    assert sorted(path.name for path in settings.iterdir()) == ["models.toml", "taken"]
