"""Transcriptions that rest: where they may, and what they hear behind it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy
import pytest
from support.speech import SENTENCES, STORY, spoken
from support.transcripts import rested, transcribe

from edgeserve.engine import ModelSpec
from edgeserve.engines.asr.onnx import OnnxSpeechToText
from edgeserve.engines.asr.rests import Begin
from edgeserve.engines.asr.stretches import Place
from edgeserve.messages import Pcm, TranscribeRequest

SECOND = 16_000
PAUSES = (0.4, 3.1, 1.2, 6.0, 2.2, 0.8, 9.5)
PARTS = STORY.split(". ")


@pytest.fixture(scope="module")
def talk() -> Any:
    """Three minutes of sentences with short pauses and long ones."""
    said = [part for text in (*SENTENCES, *PARTS) * 2 for part in (spoken(text), None)]
    pauses = iter(PAUSES * len(said))
    return numpy.concatenate(
        [numpy.zeros(int(next(pauses) * SECOND)) if part is None else part for part in said], dtype=numpy.float32
    )


@pytest.mark.models
@pytest.mark.parametrize(("windows", "words"), [(1, False), (1, True), (4, False)])
def test_whisper_hears_the_same_behind_a_rest(
    talk: Any, pulled: Callable[[str], Mapping[str, Path]], windows: int, words: bool
) -> None:
    """Words, times and figures; several windows at once round otherwise at a rest, as their number differs."""
    options = {"windows": windows, "quantization": "none"}
    spec = ModelSpec("asr", "whisper-tiny.en", "", pulled("whisper-tiny.en"), threads=1, options=options)
    engine = OnnxSpeechToText(spec)
    engine.heat()
    try:
        *alone, end = transcribe(engine, talk, word_timestamps=words, prompt="Coffee, please.")
        (*found, last), rests = rested(engine, talk, word_timestamps=words, prompt="Coffee, please.")
    finally:
        engine.close()
    assert rests >= 3 / windows
    assert last == end
    assert [(one.start, one.end, one.text, one.words) for one in found] == [
        (one.start, one.end, one.text, one.words) for one in alone
    ]
    assert [one.avg_logprob for one in found] == pytest.approx([one.avg_logprob for one in alone], abs=1e-5)


@pytest.mark.parametrize(("first", "nearest"), [(0, 30), (600, 30), (1800, 90)])
def test_the_next_rest_is_farther_the_more_is_skipped(first: int, nearest: int) -> None:
    """Sound in front of a rest is decoded again: half an hour takes as long as a minute of transcription."""
    begin = Begin(Place(first * SECOND), {})
    assert not begin.is_far((first + nearest) * SECOND - 1)
    assert begin.is_far((first + nearest) * SECOND)


def test_an_answer_begins_at_the_start_of_its_sound() -> None:
    assert Begin.of(TranscribeRequest(Pcm(b""))) == (Place(), {})
