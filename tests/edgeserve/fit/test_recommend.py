"""The advice for this machine: candidates, figures, JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.memory import POLICY, readings

from edgeserve.fit import calibration, recommend
from edgeserve.fit.calibration import Calibration
from edgeserve.fit.choice import Box
from edgeserve.fit.speed import Rates
from edgeserve.jobs import INFO
from edgeserve.models import catalog, needs
from edgeserve.models.store import Store
from edgeserve.models.stored import StoredModel
from edgeserve.units import GB

FIGURES = Calibration("Box 1", "4 cores", Rates(10e9, 100e9), "tiny")


def advise(root: Path, total: int = 8 * GB, **more: object) -> recommend.Advice:
    return recommend.advise(Store(root), Box(readings(total), POLICY), FIGURES, **more)  # type: ignore[arg-type]


def test_every_model_that_this_machine_can_run_is_judged_once(tmp_path: Path) -> None:
    names = [one.candidate.entry.name for one in advise(tmp_path).judged]
    assert sorted(names) == sorted(
        name for name, one in catalog.MODELS.items() if one.job != "vad" and recommend.runs_here(one)
    )


def test_models_for_mlx_are_for_apple_silicon() -> None:
    entry = catalog.find("whisper-tiny-mlx")
    assert recommend.runs_here(entry, {"platform": "darwin", "machine": "arm64"})
    assert not recommend.runs_here(entry, {"platform": "linux", "machine": "aarch64"})
    assert recommend.runs_here(catalog.find("whisper-tiny"), {"platform": "linux", "machine": "aarch64"})


def test_only_the_jobs_that_are_asked_for(tmp_path: Path) -> None:
    assert {one.candidate.job for one in advise(tmp_path, jobs=["asr"]).judged} == {"asr"}


def test_the_json_has_every_figure(tmp_path: Path) -> None:
    found = json.loads(json.dumps(advise(tmp_path).as_json()))
    assert found["machine"]["memory_budget"] == 8 * GB
    figures = {"bandwidth": 10e9, "operations": 100e9, "weights": 0.0, "token_seconds": 0.0}
    assert found["calibration"] == {"model": "tiny", **figures}
    by_name = {one["name"]: one for one in found["models"]}
    chat = by_name["qwen3-0.6b"]
    assert (chat["fits"], chat["suits"], chat["pulled"], chat["verified"]) == (True, True, False, False)
    assert chat["memory"] == sum(chat["memory_parts"].values())
    assert chat["memory_origin"] == "catalogue"
    assert chat["speed"]["unit"] == "tokens/s"
    assert by_name["hibari"]["speed"] is None
    chosen = found["together"]["models"]
    assert [by_name[name]["job"] for name in chosen] == list(INFO)
    assert found["together"]["memory"] == sum(by_name[name]["memory"] for name in chosen) < 8 * GB


def test_packages_that_a_pull_or_a_voice_lacks_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        needs, "to_convert", lambda conversion: (needs.Need("onnx", "onnx", "starter"),) * bool(conversion)
    )
    monkeypatch.setattr(needs, "to_run", lambda options: (needs.Need("p", "piper-tts", "piper"),) * bool(options))
    lacks = {one.entry.name: one.lacks for one in recommend.candidates(Store(tmp_path), FIGURES, ["asr", "tts"])}
    assert lacks["whisper-base"] == "onnx"
    assert lacks["piper-en-us-joe-medium"] == "piper-tts"
    assert lacks["parakeet-tdt-0.6b-v3"] == "piper-tts", "as every model with options here"


def test_a_small_machine_gets_small_models(tmp_path: Path) -> None:
    found = advise(tmp_path, 1 * GB)
    assert {one.entry.name for one in found.together if one.job == "llm"} <= {
        one.candidate.entry.name for one in found.judged if one.candidate.amount.total < 1 * GB
    }
    assert not any(one.suits for one in found.judged if one.candidate.entry.name == "qwen3-4b")


def test_figures_are_measured_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    here = Calibration(calibration.cpu.name(), calibration.cpu.kind(), Rates(1.0, 2.0))
    measured: list[object] = []
    monkeypatch.setattr(calibration, "measure", lambda model: measured.append(model) or here)
    begun: list[int] = []
    store = Store(tmp_path / "models")
    for anew in (False, False, True):
        assert recommend.calibrated(store, anew=anew, begin=lambda: begun.append(1)) == here
    assert measured == [None, None]
    assert len(begun) == 2
    assert (tmp_path / calibration.FILE).is_file()


def test_a_large_chat_model_is_not_timed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def stored(name: str) -> StoredModel:
        entry = catalog.find(name)
        return StoredModel(name, entry.job, entry.engine, {}, entry.size_bytes)

    here = [stored(name) for name in ("qwen3-4b", "hibari", "smollm2-360m-instruct", "gemma-3-270m-it")]
    monkeypatch.setattr(Store, "list", lambda self: here)
    found = recommend.smallest_chat(Store(tmp_path))
    assert found is not None
    assert found.name == "gemma-3-270m-it"
    here[2:] = []
    assert recommend.smallest_chat(Store(tmp_path)) is None


@pytest.mark.models
def test_the_smallest_stored_chat_model_is_timed(store: Store) -> None:
    store.pull("smollm2")
    found = recommend.smallest_chat(store)
    assert found is not None
    assert found.name == "smollm2-135m-instruct"
