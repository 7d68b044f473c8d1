"""The output of ``edgeserve doctor``."""

from __future__ import annotations

import dataclasses
import json
import re
from pathlib import Path

import gguf
import pytest
from support.commands import run
from support.machines import BOX
from support.tiny_bert import HEAD, write_bert

from edgeserve.doctor import machine
from edgeserve.fit import calibration
from edgeserve.fit.calibration import Calibration
from edgeserve.fit.speed import Rates
from edgeserve.models import catalog


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "read", lambda *ignored: BOX)


@pytest.mark.usefixtures("box")
def test_doctor_reports_missing_parts(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("models.toml").write_text('[llm]\nmodel = "smollm2"\n[tts]\nmodel = "hibari"\n')
    assert run("doctor", environ=models) == 1
    out = capsys.readouterr().out
    assert "models may take 6.0 GB, the smallest of: total minus reserve 6.0 GB, fraction of total 7.0 GB" in out
    assert "tts  hibari, pulled" in out
    assert out.endswith(
        "[ERROR] smollm2-135m-instruct (llm) is configured but not pulled\n"
        "        edgeserve pull smollm2-135m-instruct\n"
    )


@pytest.mark.usefixtures("box")
def test_doctor_finds_nothing(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("models.toml").write_text('[tts]\nmodel = "hibari"\n[models.second]\njob = "tts"\nmodel = "hibari"\n')
    assert run("doctor", environ=models) == 0
    out = capsys.readouterr().out
    assert "\n  tts     hibari, pulled\n  second  hibari (tts), pulled\n" in out
    assert out.endswith("Nothing is missing.\n")
    assert re.search(r"^  smolvlm-256m +vision +266 MB +unverified +yes$", out, re.MULTILINE)
    assert re.search(r"^  smollm2-135m-instruct +llm +94 MB +yes$", out, re.MULTILINE)


def test_doctor_bounds_the_speed_by_the_memory(
    models: dict[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(machine, "read", lambda *ignored: dataclasses.replace(BOX, bandwidth=10e9))
    Path("models.toml").write_text('[llm]\nmodel = "smollm2"\n[tts]\nmodel = "hibari"\n')
    run("doctor", environ=models)
    out = capsys.readouterr().out
    assert "reads        9.3 GB of memory a second" in out
    assert re.search(r"^  llm  smollm2-135m-instruct, not pulled, at most \d+ tokens/s$", out, re.MULTILINE)
    assert re.search(r"^  tts  hibari, pulled$", out, re.MULTILINE)
    chosen = out[out.index("To choose: ") :]
    (rate,) = (float(one) for one in re.findall(r"^  llm +[\w.-]+, at most ([\d.]+) tokens/s$", chosen, re.MULTILINE))
    assert 5 <= rate < 20, "the largest that people need not wait for"
    assert run("doctor", "--json", environ=models) == 1
    assert json.loads(capsys.readouterr().out)["machine"]["bandwidth"] == 10e9


@pytest.mark.usefixtures("box")
def test_doctor_expects_the_speed_where_the_machine_was_measured(
    models: dict[str, str], capsys: pytest.CaptureFixture[str]
) -> None:
    kept = Path(models["EDGESERVE_MODELS_DIR"]).parent / calibration.FILE
    calibration.keep(kept, Calibration(calibration.cpu.name(), calibration.cpu.kind(), Rates(10e9, 100e9)))
    Path("models.toml").write_text('[llm]\nmodel = "smollm2"\n')
    run("doctor", environ=models)
    assert re.search(r"^  llm  smollm2-135m-instruct, not pulled, about \d+ tokens/s$", capsys.readouterr().out, re.M)


@pytest.mark.usefixtures("box")
def test_doctor_misses_a_projector(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("models.toml").write_text('[vision]\nmodel = "smollm2"\nmmproj = "nowhere.gguf"\n')
    assert run("doctor", environ=models) == 1
    assert "[ERROR] [vision] mmproj = 'nowhere.gguf': no such file\n        name the" in capsys.readouterr().out


@pytest.mark.usefixtures("box")
@pytest.mark.parametrize(
    ("name", "why"),
    [("smolm2", "no model is called 'smolm2'; did you mean smollm2"), ("./none.gguf", "./none.gguf: no such file")],
)
def test_doctor_does_not_advise_to_pull_what_no_pull_can_bring(
    models: dict[str, str], capsys: pytest.CaptureFixture[str], name: str, why: str
) -> None:
    Path("models.toml").write_text(f'[llm]\nmodel = "{name}"\n')
    assert run("doctor", environ=models) == 1
    found = re.escape(f"[ERROR] {why}") + r".*\n +name another model in models.toml, then: edgeserve doctor\n"
    assert re.search(rf"  llm  {re.escape(name)}, not pulled\n(.*\n)*{found}", capsys.readouterr().out)


@pytest.mark.usefixtures("box")
@pytest.mark.parametrize("head", [True, False])
def test_doctor_finds_a_reranker_without_a_ranking_head(
    models: dict[str, str], tmp_path: Path, capsys: pytest.CaptureFixture[str], *, head: bool
) -> None:
    path = write_bert(tmp_path / "ranks.gguf", gguf.PoolingType.RANK, head=tuple(HEAD) if head else ())
    Path("models.toml").write_text(f"[rerank]\nmodel = '{path}'\n")
    run("doctor", environ=models)
    out = capsys.readouterr().out
    assert (
        "Nothing is missing" in out
        if head
        else re.search(r"^\[ERROR\] .*: this model has no ranking head; take one", out, re.M)
    )


@pytest.mark.usefixtures("box")
def test_doctor_as_json(models: dict[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    Path("models.toml").write_text('[tts]\nmodel = "hibari"\n')
    (Path(models["EDGESERVE_MODELS_DIR"]) / "hibari" / "hibari.onnx").unlink()
    assert run("doctor", "--json", environ=models) == 1
    facts = json.loads(capsys.readouterr().out)
    assert facts["machine"]["memory_total"] == 8 << 30
    assert facts["machine"]["confinement"]["seccomp"] == "on"
    assert facts["findings"][0]["fix"] == "edgeserve remove hibari && edgeserve pull hibari"
    by_name = {model["name"]: model for model in facts["models"]}
    assert by_name["hibari"]["configured"]
    assert by_name["smolvlm-256m"]["fit"] == {"word": "yes", "reason": ""}
    assert not by_name["smolvlm-256m"]["verified"]
    assert by_name["smollm2-135m-instruct"]["verified"]
    assert set(by_name) == set(catalog.MODELS) - {"silero-vad"}, "which comes by itself"


@pytest.mark.usefixtures("box")
@pytest.mark.parametrize("content", ["", "{", "[]", '{"engine": "os:system"}'])
def test_doctor_finds_a_damaged_model(models: dict[str, str], content: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("models.toml").write_text('[tts]\nmodel = "hibari"\n')
    (Path(models["EDGESERVE_MODELS_DIR"]) / "hibari" / "manifest.json").write_text(content)
    assert run("doctor", environ=models) == 1
    out = capsys.readouterr().out
    assert "tts  hibari, damaged" in out
    assert "hibari/manifest.json is damaged: " in out
    assert "smolvlm-256m" in out


@pytest.mark.usefixtures("box")
@pytest.mark.parametrize("text", ["[llm]\n", "[tts]\nmodel = 'hibari'\n[memory]\nmax_percent = 7\n"])
def test_doctor_looks_on_when_the_settings_are_wrong(
    models: dict[str, str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    Path("models.toml").write_text(text)
    assert run("doctor", environ=models) == 1
    out = capsys.readouterr().out
    assert "This machine" in out
    assert "confinement  landlock off: this kernel has no Landlock; seccomp on" in out
    assert "[ERROR] models.toml" in out
