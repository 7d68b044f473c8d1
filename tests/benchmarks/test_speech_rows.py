"""Rows of speech with a human voice: their targets, their pairs, and the recordings."""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import tarfile
import wave
from collections.abc import Iterator
from pathlib import Path

import pytest
from benchmarks import speech_rows, speech_voices
from benchmarks.pairs import Pair, Pairs
from benchmarks.speech_rows import PEERS, Scene, kind_of, measure, targets, words
from benchmarks.speech_sides import DIRECT, HTTP, Open, Side, Took
from benchmarks.speech_voices import REPEATED, WORDS, Recording


class Heard:
    """A side that hears a text within some seconds."""

    pid = 1

    def __init__(self, seconds: float, text: str) -> None:
        self._took = Took(seconds, seconds, seconds, text)

    def hear(self, path: Path) -> Took:
        return self._took

    def say(self, text: str) -> Took:
        return self._took


class Place:
    def __init__(self, sides: dict[str, Heard]) -> None:
        self._sides = sides

    def hearing(self) -> dict[str, Open]:
        @contextlib.contextmanager
        def opened(side: Heard) -> Iterator[Side]:
            yield side

        return {name: lambda side=side: opened(side) for name, side in self._sides.items()}  # type: ignore[misc]


def test_every_row_has_a_target_alone_and_beside_a_busy_process() -> None:
    assert set(targets()) == {kind_of(name, busy=busy) for name in PEERS for busy in (False, True)}
    assert set(PEERS) == {*REPEATED, speech_rows.SAY}
    assert targets()[kind_of("minute", busy=False)] == 1.5
    assert targets()[kind_of("minute", busy=True)] == 1.0


def test_a_row_is_measured_in_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(speech_rows, "settle", lambda sides: None)
    sides = {HTTP: Heard(1.0, "to be or not"), PEERS["minute"]: Heard(2.0, "To be, or no")}
    pairs = Pairs()
    scene = Scene("minute", Recording(Path("minute.wav"), 50.0, "To be or not"))
    measure(Place(sides), scene, 2, pairs, busy=False)  # type: ignore[arg-type]
    assert [one.turn for one in pairs.all] == [1, 2]
    (row,) = pairs.rows(targets())
    assert (row.ours, row.other, row.ratio, row.met) == (50.0, 25.0, 2.0, True)
    assert words(pairs, [row]).splitlines()[-1] == "| minute, against faster-whisper int8 | 0.00 | 25.00 | yes |"
    sides.clear()
    measure(Place(sides), scene, 2, pairs, busy=False)  # type: ignore[arg-type]
    assert len(pairs.all) == 2


def test_the_server_hears_with_the_detector_that_a_pull_brings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[list[str]] = []
    monkeypatch.setattr(speech_rows.speech_voices, "recordings", lambda folder, cache: {})
    monkeypatch.setattr(
        speech_rows.speech_sides, "workplace", lambda folder, threads, companions=(): asked.append(list(companions))
    )
    monkeypatch.setattr(speech_rows, "measure", lambda *_, **options: None)
    speech_rows.measure_all(argparse.Namespace(cache=tmp_path, row=["minute"], busy=False, rounds=1), Pairs())
    assert asked == [["silero-vad"]]


def test_speech_has_no_words_to_get_wrong() -> None:
    pairs = Pairs()
    pairs.add(
        Pair(HTTP, kind_of(speech_rows.SAY, busy=False), speech_rows.SAY, 1, 2.0, 1.0, {"wrong": 0, "wrong_other": 0})
    )
    assert DIRECT not in words(pairs, pairs.rows(targets()))


def test_recordings_repeat_the_passages_in_other_orders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "pocketsphinx-5.1.1.tar.gz"
    with tarfile.open(package, "w:gz") as archive:
        for number in WORDS:
            with wave.open(packed := io.BytesIO(), "wb") as file:
                file.setparams((1, 2, 16_000, 0, "NONE", ""))
                file.writeframes(bytes(16_000))
            member = tarfile.TarInfo(speech_voices.MEMBER.format(number))
            member.size = len(packed.getvalue())
            archive.addfile(member, io.BytesIO(packed.getvalue()))
    with pytest.raises(RuntimeError, match="remove it and try again"):
        speech_voices.recordings(tmp_path, tmp_path)
    monkeypatch.setattr(speech_voices, "SHA256", hashlib.sha256(package.read_bytes()).hexdigest())
    found = speech_voices.recordings(tmp_path, tmp_path)
    assert set(found) == set(REPEATED)
    assert found["reading"].seconds == pytest.approx(5 * 0.5 + 4 * 0.4)
    first, second = found["minute"].words[:100], found["minute"].words[len(found["reading"].words) + 1 :][:200]
    assert found["minute"].words.count("ill disposed young man") == 2
    assert first != second
