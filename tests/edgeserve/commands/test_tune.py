"""``edgeserve tune``: the figures of all forms, the record, and a measurement that others disturbed."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import run, told

from edgeserve.fit import tuned, tuning
from edgeserve.fit.tuned import Form, Tuned
from edgeserve.models.stored import StoredModel

FORMS = (Form({}, 0.1, 100.0, 10.0), Form({"repack": "on"}, 0.5, 220.0, 14.0))


@pytest.fixture
def environ(tmp_path: Path) -> dict[str, str]:
    (tmp_path / "m.gguf").write_bytes(bytes(5))
    return {"EDGESERVE_MODELS_DIR": str(tmp_path / "models")}


def measuring(monkeypatch: pytest.MonkeyPatch, others: float) -> None:
    def measure(model: StoredModel, *, shown: Callable[[Form], object]) -> Tuned:
        for form in FORMS:
            shown(form)
        return tuned.record(5, FORMS[1].settings, FORMS, others)

    monkeypatch.setattr(tuning, "measure", measure)


def test_the_best_form_is_marked_and_kept(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measuring(monkeypatch, others=0.1)
    model = tmp_path / "m.gguf"
    assert run("tune", str(model), environ=environ) == 0
    out = capsys.readouterr().out
    assert '* repack = "on"  0.50 s  220 tokens/s  14.0 tokens/s' in out
    kept = tuned.read(tmp_path / "tuned" / "m.json", model)
    assert kept is not None
    assert kept.best == {"repack": "on"}


def test_a_disturbed_measurement_is_kept_by_force_only(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    measuring(monkeypatch, others=1.2)
    assert run("tune", str(tmp_path / "m.gguf"), environ=environ) == 1
    assert "1.2 cores" in told(capsys)[-1]
    assert not (tmp_path / "tuned").exists()
    assert run("tune", str(tmp_path / "m.gguf"), "--force", environ=environ) == 0
    assert (tmp_path / "tuned" / "m.json").is_file()


def test_where_no_record_can_be_written_nothing_is_measured(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It took minutes, and then said so."""
    monkeypatch.setattr(tuning, "measure", lambda *_, **named: pytest.fail("measured"))
    (tmp_path / "tuned").write_text("a file where the folder should be")
    assert run("tune", str(tmp_path / "m.gguf"), environ=environ) == 1
    assert "nothing was measured" in told(capsys)[-1]


def test_a_record_that_cannot_be_written_is_an_error(
    environ: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(path: Path, found: Tuned) -> None:
        raise OSError(28, "No space left on device")

    measuring(monkeypatch, others=0.0)
    monkeypatch.setattr(tuned, "keep", full)
    assert run("tune", str(tmp_path / "m.gguf"), environ=environ) == 1
    assert "not kept" in told(capsys)[-1]
