"""Texts as sound files, and played."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import sys
import wave
from collections.abc import Callable
from pathlib import Path

import pytest
from support import fake_cli
from support.commands import run, start, told, typist
from support.server import until
from support.speech import decoded

from edgeserve.audio.encode import FORMS

Players = Callable[..., dict[str, str]]


@pytest.fixture
def players(tmp_path: Path) -> Players:
    """An environment with programs of these names, which write down their arguments and what they read."""
    folder = tmp_path / "bin"
    folder.mkdir()

    def make(*names: str, then: str = "") -> dict[str, str]:
        for name in names:
            script = folder / name
            lines = ["#!/bin/sh", "PATH=/usr/bin:/bin", f'echo "$@" > {folder}/{name}.argv']
            lines += [f"""cat {'"$1"' if name == "afplay" else ""} > {folder}/{name}.heard""", then]
            script.write_text("\n".join(lines))
            script.chmod(0o755)
        return {"PATH": str(folder)}

    return make


def test_speak_writes_a_wav_file(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("speak", "one two three. four", "-o", "a.wav") == 0
    assert capsys.readouterr() == ("", "")
    with wave.open("a.wav") as file:
        assert (file.getnchannels(), file.getsampwidth(), file.getframerate()) == (1, 2, 24_000)
        assert file.getnframes() == 0.4 * 24_000


@pytest.mark.slow
def test_speak_from_stdin_to_stdout() -> None:
    command = [sys.executable, fake_cli.__file__, "speak", "-", "-o", "-"]
    ended = subprocess.run(command, input=b"one two", capture_output=True)
    assert (ended.returncode, ended.stderr) == (0, b"")
    with wave.open(io.BytesIO(ended.stdout)) as file:
        assert file.getnframes() == 0.2 * 24_000


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        ((" ", "-o", "a.wav"), "the text is empty"),
        (
            ("hello", "-o", "a.txt"),
            "-o a.txt: the ending must be one of .mp3, .opus, .aac, .flac, .wav, .pcm",
        ),
        (("hello", "-o", "a.wav", "--speed", "9"), "--speed 9: expected 0.25 to 4.0"),
        (("hello", "-o", "nowhere/a.wav"), "-o nowhere/a.wav: there is no such directory"),
        (("hello", "-o", "a.wav", "--voice", "bass"), "unknown voice 'bass'; voices: tone, hum"),
    ],
)
def test_speak_refuses(settings: Path, argv: tuple[str, ...], words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("speak", *argv) == 1
    assert told(capsys) == [f"[ERROR] {words}"]
    assert not list(settings.glob("**/*.wav"))


@pytest.mark.slow
def test_wav_bytes_do_not_go_to_a_terminal() -> None:
    with typist("speak", "hello", "-o", "-") as me:
        me.sees("[ERROR] -o - writes WAV bytes")
        assert me.process.wait(timeout=20) == 1


@pytest.mark.parametrize("name", [*FORMS, "ogg", "MP3"])
def test_the_ending_names_the_format(settings: Path, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("speak", "one two three. four five", "-o", f"a.{name}") == 0
    assert capsys.readouterr() == ("", "")
    form = {"ogg": "opus", "MP3": "mp3"}.get(name, name)
    heard, rate = decoded(Path(f"a.{name}").read_bytes(), form)
    assert abs(len(heard) / rate - 0.5) < 0.1


@pytest.mark.parametrize(
    ("names", "argv", "samples_at"),
    [
        (("aplay",), "-q -t raw -f S16_LE -c 1 -r 24000", 0),
        (("paplay", "aplay"), "--raw --format=s16le --channels=1 --rate=24000", 0),
        (("aplay", "ffplay"), "-nodisp -autoexit -loglevel error -i -", 44),
        (("afplay",), ".wav", 44),
    ],
)
def test_without_a_file_it_is_played(
    settings: Path, players: Players, names: tuple[str, ...], argv: str, samples_at: int
) -> None:
    folder = Path(players(*names)["PATH"])
    assert run("speak", "one two. three", "-o", "a.wav") == 0
    assert run("speak", "one two. three", environ={"PATH": str(folder)}) == 0
    (told_of,) = folder.glob("*.argv")
    assert told_of.read_text().strip().endswith(argv)
    heard = told_of.with_suffix(".heard").read_bytes()
    assert heard[samples_at:] == (settings / "a.wav").read_bytes()[44:]
    if argv == ".wav":
        assert not Path(told_of.read_text().strip()).exists()


def test_a_machine_without_a_player(settings: Path, players: Players, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("speak", "hello", environ=players()) == 1
    (line,) = told(capsys)
    assert line == (
        "[ERROR] there is no player for the sound (ffplay, paplay, aplay, afplay): install one, or name a file with -o"
    )


@pytest.mark.parametrize("name", ["aplay", "afplay"])
def test_a_player_that_fails(settings: Path, players: Players, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("speak", "hello", environ=players(name, then="exit 3")) == 1
    assert told(capsys) == [f"[ERROR] {name} could not play the sound; it ended with exit code 3"]


def test_a_player_that_reads_nothing_is_no_broken_pipe(
    settings: Path, players: Players, capsys: pytest.CaptureFixture[str]
) -> None:
    environ = players("aplay")
    Path(environ["PATH"], "aplay").write_text("#!/bin/sh\nexit 1\n")
    assert run("speak", "hello there. " * 40, environ=environ) == 1
    assert told(capsys) == ["[ERROR] aplay could not play the sound; it ended with exit code 1"]


def test_a_refused_request_plays_nothing(settings: Path, players: Players, capsys: pytest.CaptureFixture[str]) -> None:
    environ = players("aplay")
    assert run("speak", "hello", "--voice", "bass", environ=environ) == 1
    assert told(capsys) == ["[ERROR] unknown voice 'bass'; voices: tone, hum"]
    assert not list(Path(environ["PATH"]).glob("*.argv"))


@pytest.mark.slow
def test_it_plays_while_more_is_made_and_stops_at_ctrl_c(settings: Path, players: Players) -> None:
    """The player has the first sentence when the interrupt comes, and is gone after it."""
    environ = players("aplay")
    folder = Path(environ["PATH"])
    (folder / "aplay").write_text(f"#!/bin/sh\nPATH=/usr/bin:/bin\necho $$ > {folder}/pid\nexec cat > {folder}/heard\n")
    process = start("speak", "one two. " * 500, FAKE_DELAY="0.05", PATH=environ["PATH"])
    until(lambda: (folder / "heard").exists() and (folder / "heard").stat().st_size > 0, 30)
    process.send_signal(signal.SIGINT)
    assert process.wait(30) == 130
    assert (folder / "heard").stat().st_size < 500 * 9600
    with pytest.raises(ProcessLookupError):
        os.kill(int((folder / "pid").read_text()), 0)
    process.communicate()
