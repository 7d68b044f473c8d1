"""All missing models and packages are reported at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import told

from edgeserve import cli, specification
from edgeserve.config import Config, load
from edgeserve.errors import ModelMissing, StoreError
from edgeserve.missing import find_all
from edgeserve.models import needs
from edgeserve.models.store import Store


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The packages that are; a test may take some away."""
    there = {"onnx", "hibari"}
    monkeypatch.setattr(needs, "find_spec", lambda module: module if module in there else None)
    return there


def configured(**models: str) -> Config:
    """A models.toml, in the current folder, that names these."""
    text = "".join(f'[{job}]\nmodel = "{name}"\n' for job, name in models.items())
    Path("models.toml").write_text(text)
    return load({})


def error(config: Config, models: dict[str, str]) -> StoreError:
    with pytest.raises(StoreError) as caught:
        find_all(config, Store(Path(models["EDGESERVE_MODELS_DIR"])))
    return caught.value


def test_serve_after_a_bare_install_names_everything(
    settings: Path, installed: set[str], capsys: pytest.CaptureFixture[str]
) -> None:
    installed.clear()
    (settings / "models.toml").unlink()
    assert (
        cli.main(["serve", "--no-pull", "--port", "0"], environ={"EDGESERVE_MODELS_DIR": str(settings / "none")}) == 1
    )
    assert told(capsys) == [
        "[ERROR] not on this device: smollm2-135m-instruct, whisper-tiny.en, hibari; pip install onnx hibari-tts "
        "(for onnx, hibari-tts), then `edgeserve pull starter`"
    ]


def test_present_models_are_not_named(models: dict[str, str]) -> None:
    told = error(configured(llm="smollm2", asr="whisper", tts="hibari"), models)
    assert isinstance(told, ModelMissing)
    assert str(told) == "not on this device: smollm2-135m-instruct, whisper-tiny.en; `edgeserve pull starter`"


def test_other_models_are_pulled_by_name(models: dict[str, str]) -> None:
    told = error(configured(llm="qwen3-4b", asr="whisper", tts="hibari"), models)
    assert str(told).endswith("`edgeserve pull qwen3-4b whisper-tiny.en`")


def test_one_model_keeps_its_own_words(models: dict[str, str]) -> None:
    told = error(configured(llm="qwen3-4b", tts="hibari"), models)
    assert str(told) == "qwen3-4b is not on this device; fetch it with `edgeserve pull qwen3-4b`"


def test_damage_and_unknown_names_are_reported_with_missing_models(models: dict[str, str]) -> None:
    (Path(models["EDGESERVE_MODELS_DIR"]) / "hibari" / "manifest.json").write_text("")
    told = str(error(configured(llm="no-such-model", asr="whisper", tts="hibari"), models))
    assert told.startswith("not on this device: whisper-tiny.en; `edgeserve pull whisper-tiny.en`; models.toml, ")
    assert "models.toml, line 2: [llm] model: no model is called 'no-such-model'" in told
    assert "manifest.json is damaged: it is empty; `edgeserve pull hibari` mends it" in told


def test_a_name_that_means_nothing_has_its_line(models: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "own.toml"
    path.write_text('[server]\n[tts]\nmodel = "no-such-voice"\n')
    told = str(error(load({}, path=path), models))
    assert told.startswith(f"{path}, line 3: [tts] model: no model is called 'no-such-voice'")
    told = str(error(load({}, path=path, flags={"TTS_MODEL": "nor-this"}), models))
    assert told.startswith("no model is called 'nor-this'")


@pytest.mark.parametrize(
    "name", ["no-such-model", "hub:none", "hub:none.gguf", "https://127.0.0.1:1/a.bin", "http://["]
)
def test_a_name_that_means_nothing_is_a_mistake_in_the_settings(
    models: dict[str, str], name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    configured(llm=name, asr="whisper")
    assert cli.main(["serve", "--no-pull"], environ={**models, "EDGESERVE_PORT": "0"}) == 2
    assert "models.toml, line 2: [llm] model: " in told(capsys)[-1]


@pytest.mark.parametrize("name", ["whisper", "./none.gguf", "/mnt/late/none.gguf", "./folder"])
def test_a_model_that_may_yet_come_is_no_mistake_in_the_settings(models: dict[str, str], name: str) -> None:
    """A service is started again for it: a pull may bring it, or its disk is late."""
    Path("folder").mkdir()
    configured(llm=name)
    assert cli.main(["serve", "--no-pull"], environ={**models, "EDGESERVE_PORT": "0"}) == 1


def test_a_missing_draft_is_pulled_as_a_model_is(models: dict[str, str], tmp_path: Path) -> None:
    here = tmp_path / "model.gguf"
    here.write_bytes(b"GGUF")
    path = tmp_path / "own.toml"
    path.write_text(f'[llm]\nmodel = "{here}"\ndraft = "smollm2"\n')
    assert "`edgeserve pull smollm2-135m-instruct`" in str(error(load({}, path=path), models))
    path.write_text(f'[llm]\nmodel = "{here}"\ndraft = "nobody"\n')
    assert f"{path}, line 3: [llm] draft: no model is called 'nobody'" in str(error(load({}, path=path), models))


def test_all_that_is_here_is_found(models: dict[str, str]) -> None:
    found = find_all(configured(tts="hibari"), Store(Path(models["EDGESERVE_MODELS_DIR"])))
    assert {job: one.name for job, one in found.items()} == {"tts": "hibari"}


def test_a_package_that_is_missing_alone_is_a_warning(
    models: dict[str, str], installed: set[str], caplog: pytest.LogCaptureFixture
) -> None:
    installed.clear()
    (spec,) = specification.specs(configured(tts="hibari"), Store(Path(models["EDGESERVE_MODELS_DIR"])))
    assert spec.name == "hibari"
    assert caplog.messages == ["hibari runs only with hibari-tts: pip install hibari-tts"]
