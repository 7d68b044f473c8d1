"""Pulling, listing, showing and removing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import run, told

from edgeserve import cli
from edgeserve.commands import models as commands_models
from edgeserve.commands.models import wanted
from edgeserve.config import load
from edgeserve.errors import SourceUnavailable
from edgeserve.models import catalog, needs
from edgeserve.models.store import Progress, Store, StoredModel


def test_list_shows_what_is_here(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", environ=models) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["NAME", "JOB", "SIZE", "LICENCE", "PULLED"],
        ["hibari", "tts", "2.0", "KB", "Apache-2.0", "yes"],
    ]


def test_list_all_shows_each_model_once(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", "--all", environ=models) == 0
    *lines, words = capsys.readouterr().out.splitlines()[1:]
    assert sorted(line.split()[0] for line in lines) == sorted(catalog.MODELS)
    assert [line.split()[0] for line in lines if line.endswith("yes")] == ["hibari"]
    unverified = [line.split()[0] for line in lines if line.endswith("no, unverified")]
    assert sorted(unverified) == sorted(name for name, one in catalog.MODELS.items() if not one.verified)
    assert words.startswith("unverified: ")


def test_list_without_models_suggests_a_pull(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("list", environ={"EDGESERVE_MODELS_DIR": "nowhere"}) == 0
    assert "edgeserve pull starter" in capsys.readouterr().out


def test_show_says_that_a_model_is_unverified(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    for name, unverified in (("qwen3-0.6b", True), ("smollm2", False)):
        assert run("show", name, environ=models) == 0
        assert ("verified" in capsys.readouterr().out) == unverified


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


def test_pull_without_a_name_takes_the_settings(settings: Path) -> None:
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


# Damage and leftovers


def damage(models: dict[str, str], content: bytes = b"") -> Path:
    path = Path(models["EDGESERVE_MODELS_DIR"]) / "hibari" / "manifest.json"
    path.write_bytes(content)
    return path


@pytest.fixture
def two(models: dict[str, str]) -> dict[str, str]:
    """Beside hibari another model, whole."""
    root = Path(models["EDGESERVE_MODELS_DIR"])
    shutil.copytree(root / "hibari", root / "piper-en-us-joe-medium")
    return models


@pytest.mark.parametrize("content", [b"", b'{"name": "hib', b"[]", b"\xff\xfe", b"{}", b"null"])
def test_list_shows_the_others_and_names_the_file_and_its_mend(
    two: dict[str, str], content: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    path = damage(two, content)
    assert run("list", environ=two) == 0
    _, damaged, whole, note = capsys.readouterr().out.splitlines()
    assert damaged.split() == ["hibari", "-", "-", "-", "damaged"]
    assert whole.split()[0] == "piper-en-us-joe-medium"
    assert note.startswith(f"{path.absolute()} is damaged: ")
    assert "`edgeserve pull hibari` mends it, `edgeserve remove hibari` removes it" in note
    assert run("list", "--all", environ=two) == 0
    rows = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:-2]]
    assert sorted(rows) == sorted(catalog.MODELS)
    assert run("show", "hibari", environ=two) == 1
    assert str(path) in told(capsys)[0]
    assert run("remove", "hibari", environ=two) == 0
    assert run("list", environ=two) == 0
    assert "damaged" not in capsys.readouterr().out


def test_pull_says_what_it_repairs(
    two: dict[str, str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    damage(two)
    monkeypatch.setattr(Store, "pull", lambda self, what, progress: StoredModel(what, "tts", "engine", {}, 2048, "MIT"))
    assert run("pull", "hibari", environ=two) == 0
    out, errors = capsys.readouterr()
    assert out == "hibari: pulled, 2.0 KB, licence MIT\n"
    assert errors.startswith("[WARNING] ")
    assert "manifest.json is damaged: it is empty" in errors


def test_leftovers_of_a_pull_are_listed_and_removed(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    root = Path(models["EDGESERVE_MODELS_DIR"])
    for folder in (".partial-qwen3-4b", ".partial-mine", ".removed-old"):
        (root / folder).mkdir()
        (root / folder / "model.gguf.part").write_bytes(bytes(4096))
    assert run("list", environ=models) == 0
    lines = capsys.readouterr().out.splitlines()
    assert ["qwen3-4b", "-", "4.0", "KB", "-", "pull", "broken", "off"] in [line.split() for line in lines]
    assert lines[-3:] == [
        "mine: 4.0 KB of a pull that broke off; pulling it from the same place again goes on, `edgeserve remove mine` "
        "removes it",
        "qwen3-4b: 4.0 KB of a pull that broke off; `edgeserve pull qwen3-4b` goes on, `edgeserve remove qwen3-4b` "
        "removes it",
        "old: 4.0 KB of a removal that broke off; `edgeserve remove old` removes it",
    ]
    for name in ("qwen3-4b", "mine", "old"):
        assert run("remove", name, environ=models) == 0
        assert run("remove", name, environ=models) == 1
    assert [path.name for path in root.iterdir() if not path.name.startswith(".lock")] == ["hibari"]


# Pulling several


def only(monkeypatch: pytest.MonkeyPatch, *modules: str) -> None:
    """Installs these packages only, among those that models need."""
    monkeypatch.setattr(needs, "find_spec", lambda module: module if module in modules else None)


@pytest.fixture
def offered(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names that were fetched; smollm2's source does not answer."""
    fetched: list[str] = []

    def fetch(store: Store, name: str) -> StoredModel:
        fetched.append(name)
        if name.startswith("smollm2"):
            raise SourceUnavailable("no network")
        return StoredModel(name, "tts", "engine", {}, 2048, "MIT")

    monkeypatch.setattr(commands_models, "fetch", fetch)
    return fetched


def test_pull_reports_missing_packages_first_and_fetches_the_other_models(
    models: dict[str, str],
    offered: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    only(monkeypatch)
    assert run("pull", "starter", environ=models) == 1
    out, errors = capsys.readouterr()
    assert offered == ["smollm2-135m-instruct"]
    assert out == "hibari: already here, 2.0 KB\n"
    converting, speaking, failed, summary = errors.splitlines()
    assert converting.startswith(
        "[ERROR] whisper-tiny.en is converted when it is pulled, which needs onnx: pip install"
    )
    assert speaking.startswith("[WARNING] hibari can be pulled, but runs only with hibari-tts: pip install hibari-tts")
    assert failed == "[ERROR] no network"
    assert summary == ("[ERROR] 2 of 3 models could not be had: whisper-tiny.en, smollm2-135m-instruct; here: hibari")


def test_a_pull_of_several_continues_after_each_failure(
    models: dict[str, str], offered: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, "onnx", "hibari")
    assert run("pull", "no-such-model", "smollm2", "qwen3-0.6b", "~nobody-here/x.gguf", "hibari", environ=models) == 1
    out, errors = capsys.readouterr()
    assert offered == ["smollm2", "qwen3-0.6b"]
    assert out.splitlines() == ["qwen3-0.6b: pulled, 2.0 KB, licence MIT", "hibari: already here, 2.0 KB"]
    assert len(errors.splitlines()) == 4
    assert "3 of 5 models" in errors


def test_a_pull_that_gets_all_ends_with_0(
    models: dict[str, str], offered: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, "onnx", "hibari")
    assert run("pull", "qwen3-0.6b", "hibari", environ=models) == 0
    assert capsys.readouterr().err == ""


def test_a_voice_without_its_package_is_pulled_with_a_warning(
    models: dict[str, str], offered: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    only(monkeypatch, "hibari")
    assert run("pull", "piper", environ=models) == 1
    assert offered == ["piper"]
    assert "runs only with piper-tts: pip install 'edgeserve[piper]'" in capsys.readouterr().err


def test_settings_without_a_model_suggest_a_pull(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (settings / "models.toml").write_text("")
    assert run("pull", environ={"EDGESERVE_MODELS_DIR": "nowhere"}) == 0
    assert "models.toml lists no model; edgeserve pull starter" in capsys.readouterr().out
