"""What a voice says of numbers, dates and money is what the transcription hears."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy
import pytest
from support.speech import at_16k

from edgeserve.engine import ModelSpec
from edgeserve.messages import Pcm, SegmentEvent, SpeakRequest, TranscribeRequest
from engines.asr_onnx import OnnxSpeechToText
from engines.tts_onnx import OnnxTextToSpeech

Pulled = Callable[[str], Mapping[str, Path]]

pytestmark = pytest.mark.models

HEARD = {
    "It costs $3.50 on May 5th, 2024 at 10:30 a.m.": (
        r"costs",
        r"\$3\.50|three dollars and fifty cents|3 dollars and 50 cents",
        r"may (5|fifth)",
        r"2024|twenty twenty four",
        r"10[:.]?30|ten thirty",
        r"a\.?m",
    ),
    "Mr. Smith paid 25% of £1,200 to Dr. Jones of 12 Main St.": (
        r"(mr\.?|mister) smith",
        r"25 ?%|25 percent|twenty[- ]five percent",
        r"1,?200|twelve hundred|one thousand two hundred",
        r"(dr\.?|doctor) jones",
        r"(12|twelve) main (st|street)",
    ),
}


@pytest.mark.parametrize(("text", "words"), HEARD.items())
def test_it_is_heard(pulled: Pulled, text: str, words: tuple[str, ...]) -> None:
    voice = OnnxTextToSpeech(ModelSpec("tts", "hibari", "", pulled("hibari"), threads=2))
    ear = OnnxSpeechToText(ModelSpec("asr", "whisper-tiny.en", "", pulled("whisper-tiny.en"), threads=2))
    voice.heat()
    ear.heat()
    pcm = b"".join(event.pcm for event in voice.speak(SpeakRequest(text), threading.Event()))
    samples = at_16k(numpy.frombuffer(pcm, "<i2").astype(numpy.float32) / 32_768)
    events = ear.transcribe(TranscribeRequest(Pcm(samples.tobytes())), threading.Event())
    heard = " ".join(event.text for event in events if isinstance(event, SegmentEvent)).lower()
    voice.close()
    ear.close()
    assert [pattern for pattern in words if not re.search(pattern, heard)] == [], heard
