"""Models on the disk: verified, cleaned up, and updated."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from support.commands import run, told
from support.store import other_server

from edgeserve.commands import upkeep
from edgeserve.errors import SourceUnavailable
from edgeserve.models import lock
from edgeserve.models.store import Store, StoredModel


@pytest.fixture
def root(models: dict[str, str]) -> Path:
    """The store, whose hibari has the checksum of its bytes."""
    root = Path(models["EDGESERVE_MODELS_DIR"])
    change(root, sha256=hashlib.sha256(bytes(2048)).hexdigest())
    return root


def change(root: Path, name: str = "hibari", sha256: str = "", **keys: object) -> None:
    path = root / name / "manifest.json"
    manifest = json.loads(path.read_text())
    if sha256:
        manifest["files"]["model"]["sha256"] = sha256
    path.write_text(json.dumps(manifest | keys))


# Verify


def test_whole_models_are_named(root: Path, models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", environ=models) == 0
    assert capsys.readouterr().out == "hibari: 1 file as it was pulled, 2.0 KB\n"


def test_a_changed_file_is_removed_and_named(
    root: Path, models: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(root / "hibari", root / "piper-en-us-joe-medium")
    file = root / "hibari" / "hibari.onnx"
    file.write_bytes(b"x" * 2048)
    assert run("verify", environ=models) == 1
    out, errors = capsys.readouterr()
    assert out.startswith("piper-en-us-joe-medium: 1 file as"), "the others are verified, too"
    assert "hibari.onnx has the checksum sha256 " in errors
    assert errors.splitlines()[-1] == "[ERROR] 1 of 2 models are damaged; edgeserve pull hibari"
    assert not file.exists()


def test_a_model_that_is_not_here_is_no_success(
    root: Path, models: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("verify", "smollm2", environ=models) == 1
    assert "[ERROR] smollm2: smollm2-135m-instruct is not on this device" in capsys.readouterr().err


def test_a_damaged_model_is_found_without_its_name(
    root: Path, models: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    (root / "hibari" / "manifest.json").write_text("{")
    assert run("verify", environ=models) == 1
    assert "manifest.json is damaged" in capsys.readouterr().err


def test_an_empty_store_is_said(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("verify", environ={"EDGESERVE_MODELS_DIR": "nowhere"}) == 0
    assert "No model is pulled yet" in capsys.readouterr().out


# Clean


def test_models_that_a_server_uses_stay(root: Path, models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("models.toml").write_text('[llm]\nmodel = "smollm2"\n')
    with other_server(root, "hibari"):
        assert run("clean", "--unused", "--yes", environ=models) == 1
        assert run("remove", "hibari", environ=models) == 1
    out, errors = capsys.readouterr()
    assert "0 of 1 deleted" in out
    assert errors.count("hibari is in use by the server") == 2
    assert (root / "hibari" / "hibari.onnx").exists()
    assert run("clean", "--unused", "--yes", environ=models) == 0


@pytest.fixture
def left(root: Path) -> Path:
    """Beside the whole hibari, a pull of hibari that broke off."""
    folder = root / ".partial-hibari"
    folder.mkdir()
    (folder / "model.part").write_bytes(bytes(4096))
    return folder


def test_leftovers_are_shown_and_kept_without_a_yes(
    left: Path, models: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("clean", environ=models) == 0
    out = capsys.readouterr().out
    assert ["hibari", "broken-off", "pull", "4.0", "KB"] in [line.split() for line in out.splitlines()]
    assert "edgeserve clean --yes deletes it" in out
    assert left.exists()


def test_leftovers_go_and_the_model_of_their_name_stays(
    left: Path, models: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("clean", "--yes", environ=models) == 0
    assert capsys.readouterr().out.endswith("1 of 1 deleted\n")
    assert not left.exists()
    assert (left.parent / "hibari" / "hibari.onnx").exists()
    assert run("clean", "--yes", environ=models) == 0
    assert capsys.readouterr().out == "Nothing to delete.\n"


def test_a_yes_at_the_terminal_deletes(
    left: Path, models: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(upkeep, "ask", lambda question: question == "Delete these, 4.0 KB?")
    assert run("clean", environ=models) == 0
    assert not left.exists()


def test_a_pull_under_way_is_not_cleaned_up(
    left: Path, models: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    with lock.locked(left.parent, "hibari"):
        assert run("clean", "--yes", environ=models) == 0
        assert capsys.readouterr().out == "Nothing to delete.\n"
    assert left.exists()


def test_models_that_no_setting_names_go_only_if_asked(
    root: Path, models: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    for name, job in (("mine", "tts"), ("silero-vad", "vad")):
        shutil.copytree(root / "hibari", root / name)
        change(root, name, job=job, source="https://example.org/mine.onnx")
    files = {"vad": {"name": "hibari.onnx", "size": 2048, "sha256": "0"}}
    change(root, "silero-vad", job="vad", engine="", files=files)
    Path("models.toml").write_text('[tts]\nmodel = "HIBARI"\n')
    assert run("clean", "--yes", environ=models) == 0
    assert run("clean", "--unused", "--yes", environ=models) == 0
    assert "mine  not in the settings" in capsys.readouterr().out
    there = {path.name for path in root.iterdir() if not path.name.startswith(".")}
    assert there == {"hibari", "silero-vad"}, "a companion is named by no setting"


def test_a_draft_model_is_used(root: Path, models: dict[str, str]) -> None:
    for name in ("large", "small", "other"):
        shutil.copytree(root / "hibari", root / name)
        change(root, name, job="tts", source="https://example.org/mine.onnx")
    Path("models.toml").write_text('[llm]\nmodel = "large"\ndraft = "small"\n')
    assert run("clean", "--unused", "--yes", environ=models) == 0
    assert {path.name for path in root.iterdir() if not path.name.startswith(".")} == {"large", "small"}


def test_a_model_of_the_settings_stays_whatever_else_is_damaged(root: Path, models: dict[str, str]) -> None:
    """Without its companion the model cannot be found; it is what the settings name all the same."""
    for name, job in (("whisper-x", "asr"), ("silero-vad", "vad"), ("by-path", "tts"), ("mine", "tts")):
        shutil.copytree(root / "hibari", root / name)
        change(root, name, job=job, source="hub:acme/whisper-x")
    (root / "silero-vad" / "manifest.json").write_text("{")
    file = root / "by-path" / "hibari.onnx"
    Path("models.toml").write_text(f'[asr]\nmodel = "hub:acme/whisper-x"\n[tts]\nmodel = "{file}"\n')
    assert run("clean", "--unused", "--yes", environ=models) == 0
    there = {path.name for path in root.iterdir() if not path.name.startswith(".")}
    assert there == {"whisper-x", "silero-vad", "by-path"}


@pytest.mark.parametrize(
    ("text", "words"), [("", "there is none here"), ('[server]\nserve = "stored"\n', "none is unused")]
)
def test_settings_that_do_not_say_what_is_used_delete_nothing(
    root: Path, models: dict[str, str], text: str, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    shutil.copytree(root / "hibari", root / "mine")
    Path("models.toml").write_text(text)
    if not text:
        Path("models.toml").unlink()
    assert run("clean", "--unused", "--yes", environ=models) == 2
    assert words in capsys.readouterr().err
    assert (root / "mine").exists()


def test_what_cannot_be_deleted_is_an_error_and_the_rest_goes(
    left: Path, models: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    other = left.parent / ".removed-old"
    other.mkdir()
    real = Store.discard

    def discard(self: Store, one: upkeep.Leftover) -> None:
        if one.name == "hibari":
            raise SourceUnavailable("held")
        real(self, one)

    monkeypatch.setattr(Store, "discard", discard)
    assert run("clean", "--yes", environ=models) == 1
    out, errors = capsys.readouterr()
    assert out.endswith("1 of 2 deleted\n")
    assert errors == "[ERROR] held\n"
    assert not other.exists()


# Update


@pytest.fixture
def renewed(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Names that were fetched anew."""
    names: list[str] = []

    def fetch(store: Store, name: str, *, anew: bool = False) -> StoredModel:
        assert anew
        names.append(name)
        return StoredModel(name, "tts", "engine", {}, 2048, "MIT")

    monkeypatch.setattr(upkeep, "fetch", fetch)
    return names


def test_a_model_whose_file_changed_is_pulled_again(
    root: Path, models: dict[str, str], renewed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("update", "--check", environ=models) == 1
    assert capsys.readouterr().out == "hibari: the catalogue has another file: model\n"
    assert renewed == []
    assert run("update", environ=models) == 0
    assert "hibari: updated, 2.0 KB, licence MIT" in capsys.readouterr().out
    assert renewed == ["hibari"]


@pytest.mark.parametrize(("arguments", "says"), [(("--yes",), "no"), ((), "yes"), ((), "no")])
def test_a_model_that_a_server_uses_is_replaced_only_after_a_yes(
    root: Path,
    models: dict[str, str],
    renewed: list[str],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: tuple[str, ...],
    says: str,
) -> None:
    """``update`` replaced the files under running servers and did not ask."""
    asked: list[str] = []
    monkeypatch.setattr(upkeep, "ask", lambda question: asked.append(question) or says == "yes")
    goes = bool(arguments) or says == "yes"
    with other_server(root, "hibari") as server:
        assert run("update", *arguments, environ=models) == (0 if goes else 1)
        assert str(server.pid) in "".join(asked) or arguments
    assert renewed == ["hibari"] * goes
    assert ("nothing was replaced: edgeserve update --yes hibari" in capsys.readouterr().err) is not goes
    assert run("update", environ=models) == 0
    assert len(asked) == (not arguments)


def test_others_than_those_that_are_named_stay(root: Path, models: dict[str, str], renewed: list[str]) -> None:
    shutil.copytree(root / "hibari", root / "piper-en-us-joe-medium")
    assert run("update", "hibari", environ=models) == 0
    assert renewed == ["hibari"]
    assert run("update", "nobody", environ=models) == 1


def test_the_latest_models_are_left_alone(
    root: Path, models: dict[str, str], renewed: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    change(root, sha256="5f70741d4e900f4e85d0037498736cc1b3e1b9a63a13546a5da1e63abf4fccd8")
    shutil.copytree(root / "hibari", root / "mine")
    assert run("update", environ=models) == 0
    assert capsys.readouterr().out.startswith("Nothing to update")
    assert renewed == []


def test_a_model_of_an_address_stays_where_a_newer_catalogue_has_its_name(
    root: Path, models: dict[str, str], renewed: list[str]
) -> None:
    change(root, source="https://example.org/hibari.onnx")
    assert run("update", "--check", environ=models) == 0
    change(root, source="hub:of/an-older-catalogue")
    assert run("update", "--check", environ=models) == 1


def test_a_source_that_does_not_answer_is_an_error(
    root: Path, models: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fetch(store: Store, name: str, *, anew: bool) -> StoredModel:
        raise SourceUnavailable("no network")

    monkeypatch.setattr(upkeep, "fetch", fetch)
    assert run("update", environ=models) == 1
    assert told(capsys) == ["[ERROR] no network"]
