"""The command ``talk``, on programs that stand in for microphone and loudspeaker."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.commands import run, told
from support.server import Running, fake_pool, serving, until
from support.sound import pcm24, speech

from edgeserve.commands.talk import GREETING


@pytest.fixture(scope="module")
def running() -> Iterator[Running]:
    with serving(fake_pool(["llm", "asr", "tts"])) as running:
        yield running


def programs(folder: Path, sound: bytes) -> dict[str, str]:
    """An environment with a microphone that hears ``sound``, silence and nothing more, and with a loudspeaker."""
    (folder / "sound").write_bytes(sound)
    for name, script in (
        ("arecord", f"cat {folder}/sound; head -c 72000 /dev/zero; exec tail -f /dev/null"),
        ("aplay", f"echo $$ > {folder}/player; exec cat >> {folder}/heard"),
    ):
        (folder / name).write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\n{script}\n")
        (folder / name).chmod(0o755)
    return {"PATH": str(folder)}


@pytest.mark.slow
def test_the_command(running: Running, tmp_path: Path) -> None:
    environ = programs(tmp_path, pcm24(speech(1.0)))
    command = [sys.executable, "-m", "edgeserve", "talk", "--url", running.url]
    with subprocess.Popen(command, env={**os.environ, **environ}, stdout=subprocess.PIPE, text=True) as talking:
        try:
            assert talking.stdout
            greeting, said, answer = (talking.stdout.readline() for _ in range(3))
            assert (greeting, said[:3], answer) == (f"{GREETING}\n", "> 1", said[2:])
            until(lambda: ended(tmp_path / "player"))
            talking.send_signal(signal.SIGINT)
            assert talking.wait(20) == 0
        finally:
            talking.kill()
    assert len((tmp_path / "heard").read_bytes()) == 4800 * len(answer.split())


def ended(pid: Path) -> bool:
    """Whether the process has ended, whose number the file holds."""
    if not pid.exists() or not (number := pid.read_text().strip()):
        return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", number], capture_output=True, text=True).stdout
    return state.strip()[:1] in ("", "Z")


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
