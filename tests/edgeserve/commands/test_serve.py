"""The greeting of the server, and its settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import run

import edgeserve
from edgeserve import server
from edgeserve.cli import make_parser
from edgeserve.commands import Call
from edgeserve.commands.serve import Door, greeting
from edgeserve.config import Config, load
from edgeserve.errors import ConfigError
from edgeserve.models.store import Store


def test_greeting_names_what_is_served_in_an_order_that_works() -> None:
    lines = list(greeting(load({}), "http://0.0.0.0:8080"))
    assert lines[0].startswith(f"edgeserve {edgeserve.__version__} serves on http://0.0.0.0:8080")
    assert [line.split() for line in lines[1:4]] == [
        ["llm", "smollm2-135m-instruct"],
        ["asr", "whisper-tiny.en"],
        ["tts", "hibari"],
    ]
    assert lines[4] == "Open http://127.0.0.1:8080/ in a browser, or try:"
    chat, speak, transcribe = (line.strip() for line in lines[5:])
    assert all(line.startswith("curl -s http://127.0.0.1:8080/v1/") for line in (chat, speak, transcribe))
    assert speak.endswith("-o hello.wav")
    assert transcribe.endswith("audio=@hello.wav")


def test_greeting_opens_every_door(settings: Path) -> None:
    environ = {"EDGESERVE_KEYS_FILE": str(settings / "keys.json"), "EDGESERVE_MODELS_DIR": str(settings / "models")}

    def door(**more: str) -> Door:
        given = {**environ, **more}
        call = Call(make_parser().parse_args(["serve"]), given)
        return Door.of(call, load(given))

    assert door() == Door()
    assert door(EDGESERVE_API_KEY="sesame") == Door(locked=True)
    (settings / "keys.json").touch()
    own = str(settings / "tls" / "self-signed.pem")
    assert door(EDGESERVE_TLS="self-signed") == Door(locked=True, certificate=own)
    text = "\n".join(greeting(load({}), "https://127.0.0.1:1", Door(locked=True, certificate="/a b.pem")))
    assert "curl -s https://127.0.0.1:1/v1/chat --cacert '/a b.pem' -H \"Authorization: Bearer" in text


def test_greeting_shows_only_what_is_configured(settings: Path) -> None:
    (settings / "models.toml").write_text('[asr]\nmodel = "hearing"\n')
    text = "\n".join(greeting(load({"EDGESERVE_API_KEY": "secret"}), "http://127.0.0.1:1", Door(locked=True)))
    assert "/v1/chat" not in text
    assert "recording.wav" in text
    assert '-H "Authorization: Bearer $EDGESERVE_API_KEY"' in text
    assert "in a browser, or try, with the key in EDGESERVE_API_KEY:" in text
    assert "secret" not in text
    (settings / "models.toml").write_text('[asr]\nmodel = "hearing"\n[models.second-ears]\njob = "asr"\nmodel = "b"\n')
    assert list(greeting(load({}), "http://127.0.0.1:1"))[1:3] == ["  asr          hearing", "  second-ears  b"]
    (settings / "models.toml").write_text("")
    nothing = list(greeting(load({}), "http://127.0.0.1:1"))
    assert nothing[1:] == ["  no engine: models.toml lists none", "Open http://127.0.0.1:1/ in a browser"]


def test_a_reload_reads_the_settings_from_where_they_came(settings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    readers: list[Callable[[], Config]] = []

    def serve(config: Config, store: Store, on_ready: object, *, read: Callable[[], Config], **more: object) -> int:
        readers.append(read)
        return 0

    monkeypatch.setattr(server, "serve", serve)
    assert run("serve", "--port", "9000", environ={"EDGESERVE_QUEUE_LIMIT": "3"}) == 0
    (settings / "models.toml").write_text(
        '[server]\nport = 1\nqueue_limit = 1\ndrain_seconds = 7\n[llm]\nmodel = "m"\n'
    )
    again = readers[0]()
    assert (again.server.port, again.server.queue_limit, again.server.drain_seconds) == (9000, 3, 7.0)
    assert list(again.models) == ["llm"]
    (settings / "models.toml").write_text("[llm]\n")
    with pytest.raises(ConfigError, match=r"models.toml, line 1: \[llm\] names no model"):
        readers[0]()
