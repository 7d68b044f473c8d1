"""The greeting of the server."""

from __future__ import annotations

from pathlib import Path

import edgeserve
from edgeserve.commands.serve import greeting
from edgeserve.config import load


def test_greeting_names_what_is_served_in_an_order_that_works() -> None:
    lines = list(greeting(load({}), "http://0.0.0.0:8080"))
    assert lines[0].startswith(f"edgeserve {edgeserve.__version__} serves on http://0.0.0.0:8080")
    assert [line.split() for line in lines[1:4]] == [
        ["llm", "smollm2-135m-instruct"],
        ["asr", "whisper-tiny.en"],
        ["tts", "hibari"],
    ]
    chat, speak, transcribe = (line.strip() for line in lines[5:])
    assert all(line.startswith("curl -s http://127.0.0.1:8080/v1/") for line in (chat, speak, transcribe))
    assert speak.endswith("-o hello.wav")
    assert transcribe.endswith("audio=@hello.wav")


def test_greeting_shows_only_what_is_configured(settings: Path) -> None:
    (settings / "models.toml").write_text('[asr]\nmodel = "hearing"\n')
    text = "\n".join(greeting(load({"EDGESERVE_API_KEY": "secret"}), "http://127.0.0.1:1"))
    assert "/v1/chat" not in text
    assert "recording.wav" in text
    assert '-H "Authorization: Bearer $EDGESERVE_API_KEY"' in text
    assert "Try, with the key in EDGESERVE_API_KEY:" in text
    assert "secret" not in text
    (settings / "models.toml").write_text("")
    assert "models.toml lists none" in "\n".join(greeting(load({}), "http://127.0.0.1:1"))
