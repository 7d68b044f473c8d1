"""A conversation by voice, on fake engines: they write down seconds of sound, repeat them, and say a tone a word."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from support.commands import run, told
from support.server import Running, fake_pool, serving, until
from support.wyoming import loud

from edgeserve.commands.remote import Server
from edgeserve.commands.talk import GREETING, Conversation
from edgeserve.errors import EdgeserveError
from edgeserve.messages import AudioEvent


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving(fake_pool(["llm", "asr", "tts"])) as running:
        yield running


class Speaker:
    """A loudspeaker that notes what it plays."""

    played: list[float]

    def __init__(self, environ: Mapping[str, str]) -> None:
        type(self).played = []

    def __enter__(self) -> Speaker:
        return self

    def __exit__(self, *ignored: object) -> None:
        return None

    def add(self, event: AudioEvent) -> None:
        self.played.append(len(event.pcm) / 2 / event.sample_rate)

    def end(self) -> None:
        self.played.append(0.0)


def test_turns(running: Running, capsys: pytest.CaptureFixture[str]) -> None:
    conversation = Conversation(Server(running.url.rstrip("/")), {}, speaker=Speaker)
    conversation.turn(loud(2.5))
    assert capsys.readouterr().out == "> 1 2 3\n1 2 3\n"
    assert sum(Speaker.played) == pytest.approx(0.3)
    assert Speaker.played[-1] == 0.0
    conversation.turn(loud(1.0))
    assert capsys.readouterr().out == "> 1\n1\n"


def test_silence_is_no_turn(running: Running, capsys: pytest.CaptureFixture[str]) -> None:
    Conversation(Server(running.url.rstrip("/")), {}, speaker=Speaker).turn(bytes(32_000))
    assert capsys.readouterr().out == ""


def test_an_error_leaves_the_conversation_as_it_was(capsys: pytest.CaptureFixture[str]) -> None:
    with serving(fake_pool(["llm", "asr", "tts"], fail_word="2")) as running:
        conversation = Conversation(Server(running.url.rstrip("/")), {}, speaker=Speaker)
        with pytest.raises(EdgeserveError):
            conversation.turn(loud(2.0))
        conversation.turn(loud(1.0))
    assert capsys.readouterr().out.endswith("> 1\n1\n")


def programs(folder: Path, sound: bytes) -> dict[str, str]:
    """An environment with a microphone that hears ``sound`` and then silence, and with a loudspeaker."""
    (folder / "sound").write_bytes(sound)
    for name, script in (
        ("arecord", f"cat {folder}/sound; : > {folder}/sound; exec cat /dev/zero"),
        ("aplay", f"cat >> {folder}/heard; echo > {folder}/played"),
    ):
        (folder / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder)}


@pytest.mark.slow
def test_the_command(running: Running, tmp_path: Path) -> None:
    environ = programs(tmp_path, loud(1.0))
    command = [sys.executable, "-m", "edgeserve", "talk", "--url", running.url]
    with subprocess.Popen(command, env={**os.environ, **environ}, stdout=subprocess.PIPE, text=True) as talking:
        assert talking.stdout
        assert [talking.stdout.readline() for _ in range(3)] == [f"{GREETING}\n", "> 1\n", "1\n"]
        until((tmp_path / "played").exists)
        talking.send_signal(signal.SIGINT)
        assert talking.wait(20) == 0
    assert len((tmp_path / "heard").read_bytes()) == 4800


def test_no_microphone(
    settings: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)
    assert run("talk", environ={"PATH": str(tmp_path)}) == 1
    assert "there is no program for the microphone" in told(capsys)[0]


def test_no_loudspeaker(settings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    environ = programs(tmp_path, b"")
    (tmp_path / "aplay").unlink()
    assert run("talk", environ=environ) == 1
    assert "there is no player for the sound" in told(capsys)[0]


def test_a_server_that_the_call_names_must_answer(
    settings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("talk", "--url", "http://127.0.0.1:1", environ=programs(tmp_path, b"")) == 1
    assert "no edgeserve answers" in told(capsys)[0]
