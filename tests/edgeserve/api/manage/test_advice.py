"""GET /admin/recommend: the same advice as the command's, without measuring what is known."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.managed import managed

from edgeserve.errors import EngineFailure
from edgeserve.fit import calibration
from edgeserve.fit.calibration import Calibration
from edgeserve.fit.speed import Rates
from edgeserve.models import catalog
from edgeserve.models.store import Store
from edgeserve.system import cpu


def test_it_judges_the_catalogue_by_what_was_measured(tmp_path: Path) -> None:
    known = Calibration(cpu.name(), cpu.kind(), Rates(10e9, 50e9))
    calibration.keep(tmp_path / calibration.FILE, known)
    with managed(store=Store(tmp_path / "models")) as (running, _):
        found = running.client.get("/admin/recommend", timeout=60).json()
    assert found["machine"]["memory_total"] > 0
    assert found["calibration"]["bandwidth"] == 10e9
    names = {one["name"] for one in found["models"]}
    assert names
    assert names <= set(catalog.MODELS)
    assert not any(one["pulled"] for one in found["models"])


def test_a_machine_that_cannot_be_measured_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fails(*_: object) -> Calibration:
        raise EngineFailure("the speed of this machine could not be measured: no")

    monkeypatch.setattr(calibration, "measure", fails)
    with managed(store=Store(tmp_path / "models")) as (running, _):
        answer = running.client.get("/admin/recommend", timeout=60)
    assert answer.status_code == 500
    assert "could not be measured" in answer.json()["error"]["message"]
