"""Records of measured settings: kept, read for the same file, runtime and processor, and damaged."""

from __future__ import annotations

import dataclasses
import json
import logging
from pathlib import Path
from typing import Any

import pytest

from edgeserve.fit import tuned
from edgeserve.fit.tuned import Form, Tuned

FORMS = (Form({}, 0.1, 100.0, 10.0), Form({"repack": "on", "threads_batch": 4}, 0.5, 220.0, 14.0))


@pytest.fixture
def model(tmp_path: Path) -> Path:
    path = tmp_path / "models" / "m.gguf"
    path.parent.mkdir()
    path.write_bytes(b"12345")
    return path


@pytest.fixture
def kept(model: Path) -> tuple[Path, Tuned]:
    path = tuned.path_of(model.parent, "m")
    found = tuned.record(5, FORMS[1].settings, FORMS, 0.1)
    tuned.keep(path, found)
    return path, found


def test_a_record_lies_beside_the_models_and_is_read_again(model: Path, kept: tuple[Path, Tuned]) -> None:
    path, found = kept
    assert path == model.parent.parent / "tuned" / "m.json"
    assert tuned.read(path, model) == found
    assert found.runtime, "the release of llama-cpp-python"


@pytest.mark.parametrize(
    "changed", [{"size": 6}, {"runtime": "0.0.1"}, {"processor": "Z80"}, {"machine": "1 cores"}, {"method": 1}]
)
def test_a_record_of_another_file_runtime_or_machine_does_not_hold(
    model: Path, kept: tuple[Path, Tuned], changed: dict[str, int | str]
) -> None:
    path, found = kept
    tuned.keep(path, dataclasses.replace(found, **changed))  # type: ignore[arg-type]
    assert tuned.read(path, model) is None


def test_a_record_of_the_first_edition_has_no_number_and_does_not_hold(model: Path, kept: tuple[Path, Tuned]) -> None:
    written = json.loads(kept[0].read_text())
    del written["method"]
    kept[0].write_text(json.dumps(written))
    assert tuned.read(kept[0], model) is None


def test_no_record_and_no_model_say_nothing(model: Path, kept: tuple[Path, Tuned]) -> None:
    assert tuned.read(model.parent / "none.json", model) is None
    model.unlink()
    assert tuned.read(kept[0], model) is None


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"forms": [1], "best": 2}', "[" * 100_000])
def test_a_damaged_record_is_logged_and_does_not_hold(
    model: Path, kept: tuple[Path, Tuned], text: str, caplog: pytest.LogCaptureFixture
) -> None:
    kept[0].write_text(text)
    with caplog.at_level(logging.WARNING):
        assert tuned.read(kept[0], model) is None
    assert "measured anew" in caplog.text


@pytest.mark.parametrize(
    "settings",
    [
        {"threads": None},
        {"threads": "many"},
        {"threads": -1},
        {"threads_batch": 513},
        {"batch": 31},
        {"batch": True},
        {"repack": 1},
        {"flash_attention": ["off"]},
        {"gpu_layers": 1},
        ["batch"],
    ],
)
def test_a_record_whose_settings_no_engine_takes_does_not_hold(
    model: Path, kept: tuple[Path, Tuned], settings: Any, caplog: pytest.LogCaptureFixture
) -> None:
    path, found = kept
    tuned.keep(path, dataclasses.replace(found, best=settings, forms=(Form(settings, 0.1, 100.0, 10.0),)))
    assert tuned.read(path, model) is None
    assert "measured anew" in caplog.text


@pytest.mark.parametrize(
    "changed", [{"climb": "0.1"}, {"prompt": 0}, {"tokens": None}, {"climb": float("nan")}, {"prompt": float("inf")}]
)
def test_a_record_without_figures_does_not_hold(model: Path, kept: tuple[Path, Tuned], changed: Any) -> None:
    path, found = kept
    tuned.keep(path, dataclasses.replace(found, forms=(*FORMS, dataclasses.replace(FORMS[0], **changed))))
    assert tuned.read(path, model) is None


def test_the_best_settings_are_among_the_measured_ones(model: Path, kept: tuple[Path, Tuned]) -> None:
    path, found = kept
    tuned.keep(path, dataclasses.replace(found, best={"batch": 512}))
    assert tuned.read(path, model) is None


def test_settings_are_shown_as_in_the_settings_file() -> None:
    assert tuned.words(FORMS[1].settings) == 'repack = "on", threads_batch = 4'
    assert tuned.words({}) == "the defaults"
