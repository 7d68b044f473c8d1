"""Settings: flags over variables over the file, and the place of every mistake."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.cases import each

from edgeserve import config, model_settings
from edgeserve.config import Config, ServerSettings
from edgeserve.errors import ConfigError
from edgeserve.jobs import JOBS
from edgeserve.model_settings import ModelSettings


def write(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "models.toml"
    path.write_text(text, encoding="utf-8")
    return path


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    empty = tmp_path / "empty"
    empty.mkdir()
    monkeypatch.chdir(empty)


def test_without_a_file_the_starter_models_are_served() -> None:
    read = config.load({})
    assert {job: one.model for job, one in read.models.items()} == {
        "llm": "smollm2-135m-instruct",
        "asr": "whisper-tiny.en",
        "tts": "hibari",
    }
    assert read.server.host == "127.0.0.1"


def test_a_file_serves_only_what_it_lists(tmp_path: Path) -> None:
    path = write(tmp_path, '[tts]\nmodel = "hibari"\nvoice = "heart"\n')
    read = config.load({}, path=path)
    assert set(read.models) == {"tts"}
    assert read.models["tts"].options == {"voice": "heart"}


def test_the_file_in_the_working_directory_is_found(tmp_path: Path) -> None:
    Path("models.toml").write_text("[server]\nport = 9\n", encoding="utf-8")
    assert config.load({}).server.port == 9


def test_flags_beat_variables_beat_file(tmp_path: Path) -> None:
    path = write(tmp_path, "[server]\nport = 1\n[residency]\nidle_timeout = 7\n")
    assert config.load({}, path=path).server.port == 1
    assert config.load({"EDGESERVE_PORT": "2"}, path=path).server.port == 2
    assert config.load({"EDGESERVE_PORT": "2"}, path=path, flags={"PORT": 3}).server.port == 3
    assert config.load({"EDGESERVE_PORT": "2"}, path=path, flags={"PORT": None}).server.port == 2
    assert config.load({}, path=path).residency.idle_timeout == 7.0


def test_a_model_named_by_flag_drops_the_options_of_the_other(tmp_path: Path) -> None:
    path = write(tmp_path, '[llm]\nmodel = "a"\ncontext = 4096\n')
    assert config.load({}, path=path, flags={"LLM": "b"}).models["llm"].options == {}
    assert config.load({}, path=path, flags={"LLM": "a"}).models["llm"].options == {"context": 4096}


def test_vision_by_flags(tmp_path: Path) -> None:
    read = config.load({}, flags={"VLM_MODEL": "m.gguf", "MMPROJ": "p.gguf"})
    assert read.models["vision"].model == "m.gguf"
    assert read.models["vision"].mmproj == "p.gguf"


def test_engines_heated_ahead_by_kind_of_request(tmp_path: Path) -> None:
    text = '[llm]\nmodel = "a"\nwhen = "transcribe"\n[tts]\nmodel = "b"\nwhen = ["transcribe", "chat"]\n'
    engines = config.load({}, path=write(tmp_path, text)).models
    assert engines["tts"].when == ("transcribe", "chat")
    assert engines["tts"].options == {}
    assert model_settings.chains(engines) == {
        "chat": ("tts",),
        "vision": (),
        "transcribe": ("llm", "tts"),
        "speak": (),
        "embed": (),
        "rerank": (),
        "diarize": (),
    }


def test_device_and_preload_reach_all_engines() -> None:
    read = config.load({"EDGESERVE_DEVICE": "cpu"}, flags={"PRELOAD": "tts,asr"})
    assert {one.device for one in read.models.values()} == {"cpu"}
    assert {job for job, one in read.models.items() if one.preload} == {"tts", "asr"}
    assert all(one.preload for one in config.load({"EDGESERVE_PRELOAD": "all"}).models.values())


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[server]\nprot = 1\n", r"line 2: \[server\] prot is not a known setting; did you mean port\?"),
        ("[srver]\nport = 1\n", r"line 1: \[srver\] is not a known setting; did you mean \[server\]\?"),
        ('[model.one]\njob = "llm"\n', r"line 1: \[model\] is not a known setting; did you mean \[models\]\?"),
        ('[threads]\njob = "llm"\n', r"line 1: \[threads\] is not a known setting; expected one of: server"),
        ('[server]\nport = "80"\n', r"line 2: \[server\] port = '80': expected a whole number"),
        ("[server]\nport = true\n", "expected a whole number"),
        ("[server]\nport = -1\n", "expected a whole number from 0 to 65535"),
        ('[server]\nlog_level = "loud"\n', "expected one of debug, info, warning, error"),
        ('[residency]\nidle_timeout = "5m"\n', "expected a number"),
        ("[llm]\ncontext = 1\n", r"\[llm\] names no model"),
        ('[llm]\nmodel = "x"\ndevice = "tpu"\n', "expected one of auto, cpu, cuda, metal"),
        (
            '[tts]\nmodel = "x"\nwhen = "listen"\n',
            r"line 3: \[tts\] when = 'listen': expected one of chat, vision, t",
        ),
        ('[tts]\nmodel = "x"\nwhen = ["chat", 3]\n', r"\[tts\] when = 3: expected one of chat, vision"),
        ('[tts]\nmodel = "x"\nwhen = ["chat", "speak"]\n', r"when = 'speak': that request heats \[tts\] anyway"),
        ("llm = 3\n", r"line 1: \[llm\] must be a table"),
        ("[server\n", r"not valid TOML: .*line 1"),
    ],
)
def test_a_mistake_in_the_file_names_its_place(tmp_path: Path, text: str, told: str) -> None:
    path = write(tmp_path, text)
    with pytest.raises(ConfigError, match=told) as caught:
        config.load({}, path=path)
    assert str(path) in caught.value.message


@each(
    ("environ", "told"),
    [
        ({"EDGESERVE_PORT": "http"}, "EDGESERVE_PORT = 'http': expected a whole number"),
        ({"EDGESERVE_LOG_FORMAT": "xml"}, "EDGESERVE_LOG_FORMAT = 'xml': expected one of"),
        ({"EDGESERVE_LLAMACPP_METRICS": "maybe"}, "EDGESERVE_LLAMACPP_METRICS = 'maybe': expected true or false"),
        ({"EDGESERVE_DEVICE": "tpu"}, "EDGESERVE_DEVICE = 'tpu': expected one of"),
        ({"EDGESERVE_MMPROJ": "p.gguf"}, "without a vision model"),
        ({"EDGESERVE_PRELOAD": "tss"}, "EDGESERVE_PRELOAD = 'tss': expected all, or a list of"),
        ({"EDGESERVE_CONFIG": "/nowhere/models.toml"}, "no such file"),
    ],
)
def test_a_mistake_in_a_variable_names_it(environ: dict[str, str], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        config.load(environ)


def test_a_label_has_a_line_only_for_a_value_of_the_file(tmp_path: Path) -> None:
    path = write(tmp_path, '[server]\nmodels_dir = "m"\n[llm]\nmodel = "a"\n')
    read = config.load({}, path=path, flags={"LLM": "mode"})
    assert read.label("server", "models_dir") == f"{path}, line 2: [server] models_dir"
    assert read.label("llm", "model") == "[llm] model"
    assert config.load({}, path=path).label("llm", "model") == f"{path}, line 4: [llm] model"
    assert config.load({}).label("llm", "model") == "[llm] model"


def test_the_key_does_not_show_in_representations() -> None:
    assert "sesame" not in repr(config.load({"EDGESERVE_API_KEY": "sesame"}))


@pytest.mark.parametrize(
    "variable", ["API_KEY", "PORT", "HOST", "LOG_FORMAT", "MODELS_DIR", "LLM", "DEVICE", "PRELOAD"]
)
def test_an_empty_variable_is_unset(tmp_path: Path, variable: str) -> None:
    path = write(tmp_path, '[server]\napi_key = "sesame"\nport = 7\nmodels_dir = "m"\n[llm]\nmodel = "a"\n')
    assert config.load({f"EDGESERVE_{variable}": ""}, path=path) == config.load({}, path=path)
    assert config.load({f"EDGESERVE_{variable}": ""}, path=path).server.api_key == "sesame"


def test_names_and_pages_are_listed(tmp_path: Path) -> None:
    path = write(tmp_path, '[server]\nallowed_hosts = ["box.lan"]\ncors_origins = "https://app.example.org"\n')
    read = config.load({}, path=path).server
    assert (read.allowed_hosts, read.cors_origins) == (("box.lan",), ("https://app.example.org",))


@each("value", [" ", "sesame ", "open sesame", "sesame\n", "\x1b[0m", "\udcff", "\u00a0"])
def test_an_unsendable_key_is_refused_and_not_shown(value: str) -> None:
    with pytest.raises(ConfigError, match="visible characters without spaces") as caught:
        config.load({"EDGESERVE_API_KEY": value})
    assert "sesame" not in str(caught.value)


@each(
    ("server", "engine", "isolated"),
    [
        ("auto", "process", True),
        ("auto", "thread", False),
        ("process", "auto", True),
        ("thread", "auto", False),
        ("process", "thread", False),
        ("thread", "process", True),
    ],
)
def test_the_home_of_an_engine_is_its_own_choice_or_the_servers(server: Any, engine: Any, isolated: bool) -> None:
    settings = ModelSettings(job="llm", isolation=engine)
    assert Config(server=ServerSettings(isolation=server)).isolated(settings) is isolated


def test_a_model_over_several_machines_always_has_a_process_of_its_own() -> None:
    settings = ModelSettings(job="llm", isolation="thread", options={"nodes": ("box2",)})
    assert Config(server=ServerSettings(isolation="thread")).isolated(settings)


def test_engines_that_come_and_go_have_processes_of_their_own_on_linux() -> None:
    assert {job: model_settings.pays(job, "linux") for job in JOBS} == {
        "llm": False, "vision": False, "asr": True, "tts": True,
    }  # fmt: skip
    assert not any(model_settings.pays(job, "darwin") for job in JOBS)


@each(
    ("host", "unknown_models", "stand_ins"),
    [
        ("127.0.0.1", "auto", True),
        ("127.8.0.1", "auto", True),
        ("::1", "auto", True),
        ("localhost", "auto", True),
        ("0.0.0.0", "auto", False),
        ("::", "auto", False),
        ("box.lan", "auto", False),
        ("127.0.0.1", "refuse", False),
        ("192.0.2.7", "default", True),
    ],
)
def test_the_default_answers_for_unknown_models_on_loopback(host: str, unknown_models: Any, stand_ins: bool) -> None:
    assert ServerSettings(host=host, unknown_models=unknown_models).stand_ins is stand_ins
