"""Pulling, listing, showing and removing."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import run, told

from edgeserve import catalog, cli
from edgeserve.commands.models import wanted
from edgeserve.config import load
from edgeserve.store import Progress, Store, StoredModel


def test_list_shows_what_is_here(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", environ=models) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["NAME", "JOB", "SIZE", "LICENCE", "PULLED"],
        ["hibari", "tts", "2.0", "KB", "Apache-2.0", "yes"],
    ]


def test_list_all_shows_each_model_once(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "--all", environ=models) == 0
    lines = capsys.readouterr().out.splitlines()[1:]
    assert sorted(line.split()[0] for line in lines) == sorted(catalog.MODELS)
    assert [line.split()[0] for line in lines if line.endswith("yes")] == ["hibari"]


def test_list_of_nothing_says_what_to_do(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", environ={"EDGESERVE_MODELS_DIR": "nowhere"}) == 0
    assert "edgeserve pull starter" in capsys.readouterr().out


def test_show(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("show", "hibari", environ=models) == 0
    here = capsys.readouterr().out
    assert "hibari.onnx" in here
    assert run("show", "WHISPER", environ=models) == 0
    assert "no; edgeserve pull whisper-tiny.en" in capsys.readouterr().out
    assert run("show", "hibary", environ=models) == 1
    assert "did you mean hibari" in told(capsys)[0]


def test_remove(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("remove", "hibari", environ=models) == 0
    assert run("remove", "hibari", environ=models) == 1
    assert "edgeserve pull hibari" in told(capsys)[0]


def test_a_damaged_model_can_be_removed(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    (Path(models["EDGESERVE_MODELS_DIR"]) / "hibari" / "hibari.onnx").unlink()
    assert run("show", "hibari", environ=models) == 1
    assert run("remove", "hibari", environ=models) == 0
    assert "`edgeserve remove hibari`" in told(capsys)[0]


def test_pull_fetches_nothing_that_is_here(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("pull", "hibari", environ=models) == 0
    assert capsys.readouterr() == ("hibari: already here, 2.0 KB\n", "")


def test_pull_shows_progress_and_the_licence(
    models: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def pull(self: Store, what: str, *, progress: Callable[[Progress], None]) -> StoredModel:
        progress(Progress(what, "download", 0, 2048))
        progress(Progress(what, "download", 2048, 2048))
        progress(Progress(what, "convert", 100, 100))
        return StoredModel(what, "llm", "engine", {}, 2048, "MIT")

    monkeypatch.setattr(Store, "pull", pull)
    assert run("pull", "smollm2", environ=models) == 0
    out, error = capsys.readouterr()
    assert out == "smollm2: pulled, 2.0 KB, licence MIT\n"
    assert error.splitlines() == [
        "smollm2: download  0% of 2.0 KB",
        "smollm2: download  100% of 2.0 KB",
        "smollm2: convert  100%",
    ]


def test_what_is_pulled_without_a_name(settings: Path) -> None:
    starter = ["smollm2-135m-instruct", "whisper-tiny.en", "hibari"]
    assert list(wanted([], load({}))) == ["small", "seeing", "hearing", "speaking"]
    assert list(wanted(["hibari", "starter", "small"], load({}))) == ["hibari", *starter[:2], "small"]
    (settings / "models.toml").unlink()
    assert list(wanted([], load({}))) == starter


def test_a_model_that_is_not_pulled_is_not_fetched_by_a_question(
    models: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["chat", "hello", "--model", "smollm2"], environ=models) == 1
    assert "edgeserve pull smollm2-135m-instruct" in told(capsys)[0]
