"""Commands that a running server works for."""

from __future__ import annotations

import argparse
import wave
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.commands import run, told
from support.server import Running, fake_pool, serving

from edgeserve.audio.wav import wav
from edgeserve.commands import Call
from edgeserve.commands.remote import Server
from edgeserve.commands.served import Served, find_served
from edgeserve.errors import NotSupported
from edgeserve.jobs import Job
from edgeserve.messages import Pcm, TranscribeRequest


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving(fake_pool(["llm", "asr", "tts"])) as running:
        yield running


@pytest.fixture
def recording(settings: Path) -> str:
    (settings / "a.wav").write_bytes(wav([b"\x00\x20" * 16_000, b"\x00\xe0" * 8_000], 16_000))
    return "a.wav"


def test_chat(running: Running, settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("chat", "one two three", "--url", running.url) == 0
    assert capsys.readouterr() == ("one two three\n", "")
    assert run("chat", "one two three", "--url", running.url, "--max-tokens", "2", "--system", "be kind") == 0
    assert capsys.readouterr() == ("one two\n", "(cut after 2 tokens)\n")


def test_speak(running: Running, settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("speak", "one two three", "-o", "b.wav", "--voice", "hum", "--speed", "2", "--url", running.url) == 0
    with wave.open("b.wav") as file:
        assert (file.getframerate(), file.getnframes()) == (24_000, 0.15 * 24_000)


@pytest.mark.parametrize(("form", "start"), [("text", "1 2"), ("srt", "1\n00:00:00,000 --> 00:00:01,000\n1")])
def test_transcribe(
    running: Running, recording: str, form: str, start: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("transcribe", recording, "--format", form, "--url", running.url) == 0
    assert capsys.readouterr().out.startswith(start)


def test_translate(running: Running, recording: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("transcribe", recording, "--translate", "--language", "de", "--url", running.url) == 0
    assert capsys.readouterr().out == "one two\n"


def test_the_words_of_the_server(running: Running, settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("speak", "one", "-o", "b.wav", "--voice", "nobody", "--url", running.url) == 1
    assert "unknown voice 'nobody'" in told(capsys)[0]
    assert not Path("b.wav").exists()


def test_an_answer_that_is_cut_short(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with serving(fake_pool(["llm"], fail_word="two")) as running:
        assert run("chat", "one two three", "--url", running.url) == 1
    shown = capsys.readouterr()
    assert shown.out == "one"
    assert "failed at the word 'two'" in shown.err


def found(call: dict[str, Any], settings: Path, port: int, job: Job = "llm") -> Served | None:
    (settings / "models.toml").write_text(f"[server]\nport = {port}\n")
    given = {"config": None, "url": None, "local": False, **call}
    return find_served(Call(argparse.Namespace(**given), {}), job)


def test_the_server_of_the_settings_works_where_it_can(running: Running, settings: Path) -> None:
    port = int(running.url.rstrip("/").rpartition(":")[2])
    here = Server(f"http://127.0.0.1:{port}")
    assert found({}, settings, port) == Served(here)
    assert found({"llm": "fake-llm"}, settings, port) == Served(here, "fake-llm")
    assert found({"llm": "another"}, settings, port) is None
    assert found({}, settings, port, "vision") is None
    assert found({"local": True}, settings, port) is None
    assert found({"device": "cpu"}, settings, port) is None
    assert found({}, settings, 1) is None


def test_a_server_that_the_call_names_must_answer(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("chat", "hello", "--url", "http://127.0.0.1:1") == 1
    assert "no edgeserve answers at http://127.0.0.1:1" in told(capsys)[0]


def test_sound_that_is_no_file() -> None:
    with pytest.raises(NotSupported, match="use --local"):
        Served(Server("http://127.0.0.1:1")).ask(TranscribeRequest(Pcm(b"")), lambda event: None)
