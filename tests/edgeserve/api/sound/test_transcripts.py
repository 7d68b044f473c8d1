"""Renderers of long transcripts: written beside the event loop, and not in one call."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from typing import Any

import httpx
import pytest
from support.cases import each
from support.turns import calls_in_json

from edgeserve.api.sound import transcripts
from edgeserve.api.sound.diarized import Diarized, VerboseDiarized
from edgeserve.api.sound.speakers import Speakers
from edgeserve.api.sound.transcripts import Native, Transcript, Verbose
from edgeserve.audio.wav import wav
from edgeserve.messages import SegmentEvent, SpeakerEvent, TranscriptEnd, Word

SPEAKERS = Speakers([SpeakerEvent(0.0, 600.0, 0)], ())
BOTH = ("word", "segment")


def filled(renderer: Transcript, segments: int = 200, words: int = 5) -> Transcript:
    for number in range(segments):
        said = tuple(Word(number + one / 10, number + one / 10 + 0.1, f" w{one}é") for one in range(words))
        text = "".join(one.text for one in said)
        renderer.feed(0, SegmentEvent(number, number + 1.0, text, tuple(range(words)), words=said))
    renderer.feed(0, TranscriptEnd("en", float(segments)))
    return renderer


@each(
    "make",
    [
        Transcript,
        Native,
        Verbose,
        lambda: Verbose(BOTH),
        lambda: Diarized(SPEAKERS),
        lambda: VerboseDiarized(SPEAKERS, BOTH),
    ],
)
def test_a_transcript_is_written_as_json_writes_it(make: Callable[[], Transcript]) -> None:
    renderer = filled(make())
    assert renderer.end() == json.dumps(renderer.value(), ensure_ascii=False).encode()


@each(
    ("make", "least"),
    [(Native, 200), (lambda: Verbose(BOTH), 1200), (lambda: Diarized(SPEAKERS), 200)],
)
def test_other_threads_run_while_a_transcript_is_written(make: Callable[[], Transcript], least: int) -> None:
    """One call wrote the 50,000 words of two hours, which held the interpreter for 0.1 s."""
    assert calls_in_json(filled(make()).end) >= least


@pytest.mark.parametrize(
    ("path", "name", "fields"),
    [
        ("/v1/audio/transcriptions", "file", {"response_format": "verbose_json"}),
        ("/v1/audio/transcriptions", "file", {"response_format": "srt"}),
        ("/v1/audio/translations", "file", {}),
        ("/v1/transcribe/file", "audio", {}),
    ],
)
def test_a_thread_writes_whole_transcripts(
    client: httpx.Client, monkeypatch: pytest.MonkeyPatch, path: str, name: str, fields: dict[str, str]
) -> None:
    threads: list[str] = []

    def noted(kind: Any) -> Any:
        ends = kind.end

        def end(renderer: Transcript) -> bytes:
            threads.append(threading.current_thread().name)
            written: bytes = ends(renderer)
            return written

        return end

    for kind in (Transcript, transcripts.Srt):
        monkeypatch.setattr(kind, "end", noted(kind))
    answer = client.post(path, files={name: ("a.wav", wav([bytes(16_000)], 16_000))}, data=fields)
    assert answer.status_code == 200, answer.text
    assert len(threads) == 1
    assert threads[0].startswith("edgeserve the writing of answers")
