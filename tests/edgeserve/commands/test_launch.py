"""Settings of clients: each in its own form, without a key in it."""

from __future__ import annotations

import ast
import os
import subprocess
import tomllib
from pathlib import Path

import pytest
from support.cases import each
from support.commands import run, told
from support.managed import managed

from edgeserve.commands.launch import CLIENTS, KEY, Place

HERE = Place("http://127.0.0.1:8080", models={"llm": "small", "asr": "hearing", "tts": "speaking", "embedding": "e"})
CLOSED = Place("http://box:9000", True, HERE.models, 10400)


def exports(text: str) -> dict[str, str]:
    """The variables that a shell has after these lines."""
    lines = "\n".join(line for line in text.splitlines() if line.startswith(("export", "#")))
    ended = subprocess.run(
        ["/bin/sh", "-c", f"{lines}\nenv"],
        env={"PATH": os.environ["PATH"], "EDGESERVE_API_KEY": "sesame"},
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(line.split("=", 1) for line in ended.stdout.splitlines())


@each("name", CLIENTS)
def test_each_names_the_server_and_its_model(name: str) -> None:
    text = CLIENTS[name].write(HERE)
    assert "127.0.0.1" in text
    assert "small" in text
    assert "API_KEY}" not in text
    assert "EDGESERVE_API_KEY" not in text
    assert "LLM-MODEL" in CLIENTS[name].write(Place("http://127.0.0.1:8080"))


@each("name", CLIENTS)
def test_each_names_the_key_of_a_closed_server(name: str) -> None:
    assert "EDGESERVE_API_KEY" in CLIENTS[name].write(CLOSED)


def test_open_webui() -> None:
    found = exports(CLIENTS["open-webui"].write(CLOSED))
    assert found["OPENAI_API_BASE_URL"] == "http://box:9000/v1"
    assert found["OPENAI_API_KEY"] == found["AUDIO_STT_OPENAI_API_KEY"] == "sesame"
    assert (found["AUDIO_STT_MODEL"], found["AUDIO_TTS_MODEL"]) == ("hearing", "speaking")


def test_claude_code() -> None:
    found = exports(CLIENTS["claude-code"].write(CLOSED))
    assert found["ANTHROPIC_BASE_URL"] == "http://box:9000"
    assert (found["ANTHROPIC_AUTH_TOKEN"], found["ANTHROPIC_MODEL"]) == ("sesame", "small")
    assert exports(CLIENTS["claude-code"].write(HERE))["ANTHROPIC_AUTH_TOKEN"] == "none"


def test_codex() -> None:
    assert tomllib.loads(CLIENTS["codex"].write(CLOSED)) == {
        "model": "small",
        "model_provider": "edgeserve",
        "model_providers": {
            "edgeserve": {
                "name": "edgeserve",
                "base_url": "http://box:9000/v1",
                "wire_api": "responses",
                "env_key": KEY[1:],
            }
        },
    }
    assert "env_key" not in CLIENTS["codex"].write(HERE)


def test_langchain_is_python() -> None:
    for at in (HERE, CLOSED):
        ast.parse(CLIENTS["langchain"].write(at))


def test_home_assistant() -> None:
    text = CLIENTS["home-assistant"].write(HERE)
    assert "host 127.0.0.1   port 10300" in text
    assert "Wyoming is off: start the server with `edgeserve serve --wyoming 10300`" in text
    assert "another machine needs" in text
    text = CLIENTS["home-assistant"].write(CLOSED)
    assert "host box   port 10400" in text
    assert "Wyoming is off" not in text


def test_the_command_lists_all(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("launch") == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(CLIENTS)


def test_an_unknown_client(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("launch", "emacs") == 1
    assert "known are open-webui, home-assistant" in told(capsys)[0]


def test_names_come_from_the_settings_where_no_server_runs(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (settings / "models.toml").write_text('[server]\nport = 1\napi_key = "own"\n[llm]\nmodel = "mine"\n')
    assert run("launch", "codex") == 0
    shown = capsys.readouterr().out
    assert tomllib.loads(shown)["model"] == "mine"
    assert "own" not in shown.replace("unknown", "")


def test_names_come_from_the_server_that_runs(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with managed() as (running, _):
        assert run("launch", "codex", "--url", running.url) == 0
        names = [one["name"] for one in running.client.get("/v1/models").json()["models"] if one["type"] == "llm"]
    assert tomllib.loads(capsys.readouterr().out)["model"] == names[0]
