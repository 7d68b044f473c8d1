"""Speech in files as text."""

from __future__ import annotations

import array
import json
from pathlib import Path

import pytest
from support.commands import run, told, typist
from support.sounds import FORMS, encoded, melody

from edgeserve.audio.wav import wav


def spoken(folder: Path) -> str:
    """A WAV file of three seconds; the second is silent."""
    path = folder / "three.wav"
    tone, silence = array.array("h", [8000] * 16_000).tobytes(), bytes(32_000)
    path.write_bytes(wav([tone, silence, tone], 16_000))
    return str(path)


def test_transcribe_prints_the_text(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("transcribe", spoken(settings)) == 0
    assert capsys.readouterr() == ("1 3\n", "")


@pytest.mark.parametrize(
    ("form", "text"),
    [
        ("srt", "1\n00:00:00,000 --> 00:00:01,000\n1\n\n2\n00:00:02,000 --> 00:00:03,000\n3\n"),
        ("vtt", "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n1\n\n00:00:02.000 --> 00:00:03.000\n3\n"),
    ],
)
def test_transcribe_writes_subtitles(settings: Path, form: str, text: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("transcribe", spoken(settings), "--format", form) == 0
    assert capsys.readouterr().out == text


def test_transcribe_reads_any_form(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (settings / "memo.m4a").write_bytes(encoded(melody(2, 44_100), FORMS["m4a"]))
    assert run("transcribe", "memo.m4a") == 0
    assert capsys.readouterr().out.startswith("1 2")


def test_transcribe_as_json(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("transcribe", spoken(settings), "--format", "json") == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["text"], told["duration"]) == ("1 3", 3.0)
    assert told["segments"][1] == {"start": 2.0, "end": 3.0, "text": "3"}


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (("-o", "a.TXT"), "1 3\n"),
        (("-o", "a.srt"), "1\n00:00:00,000 --> 00:00:01,000\n1\n\n2\n00:00:02,000 --> 00:00:03,000\n3\n"),
        (("-o", "a.vtt"), "WEBVTT\n\n00:00:00.000 --> 00:00:01.000\n1\n\n00:00:02.000 --> 00:00:03.000\n3\n"),
        (("-o", "a.text", "--format", "text"), "1 3\n"),
        (("-o", "a.srt", "--format", "text", "--translate"), "one three\n"),
    ],
)
def test_transcribe_writes_a_file(
    settings: Path, argv: tuple[str, ...], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run("transcribe", spoken(settings), *argv) == 0
    assert capsys.readouterr() == ("", "")
    assert (settings / argv[1]).read_text() == text


def test_transcribe_writes_json(settings: Path) -> None:
    assert run("transcribe", spoken(settings), "-o", "a.json") == 0
    assert json.loads((settings / "a.json").read_text())["segments"][1] == {"start": 2.0, "end": 3.0, "text": "3"}


@pytest.mark.parametrize(
    ("output", "words"),
    [
        ("a.doc", "-o a.doc: end the name in .txt, .srt, .vtt, .json, or choose with --format"),
        ("nowhere/a.srt", "-o nowhere/a.srt: there is no such directory"),
    ],
)
def test_transcribe_refuses(settings: Path, output: str, words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("transcribe", spoken(settings), "-o", output) == 1
    assert told(capsys) == [f"[ERROR] {words}"]


@pytest.mark.slow
def test_long_audio_shows_how_far_it_is(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    Path("long.wav").write_bytes(wav([array.array("h", [8000] * 16_000).tobytes()] * 65, 16_000))
    assert run("transcribe", "long.wav", "-o", "long.txt") == 0
    begins, *_, ends = capsys.readouterr().err.splitlines()
    assert begins == "long.wav  0% of 1 min 05 s"
    assert ends.startswith("long.wav  100% of 1 min 05 s")
    with typist("transcribe", "long.wav") as me:  # the text itself grows
        assert "%" not in me.sees("64 65\r\n")
        assert me.process.wait(timeout=20) == 0


def test_files_that_cannot_be_read(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (settings / "text.wav").write_text("no sound")
    assert run("transcribe", "text.wav") == 1
    assert run("transcribe", "none.wav") == 1
    assert run("vision", "text.wav") == 1
    heard, missing, seen = told(capsys)
    assert heard.startswith("[ERROR] text.wav is no audio")
    assert missing == "[ERROR] none.wav: No such file or directory"
    assert seen.startswith("[ERROR] text.wav is neither PNG")


def test_transcribe_refuses_what_is_longer_than_the_limit(settings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run("transcribe", spoken(settings), environ={"EDGESERVE_MAX_AUDIO_SECONDS": "2.5"}) == 1
    (error,) = told(capsys)
    assert "lasts 3 s; the limit is 2 s: send it in parts, or raise max_audio_seconds in models.toml" in error
