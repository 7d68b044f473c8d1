"""Transcriptions of spoken numbers, dates and money give the written ones."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import numpy
import pytest
from support.piper import needs_phonemizer, noiseless
from support.speech import at_16k

from edgeserve.engine import ModelSpec
from edgeserve.engines.asr.onnx import OnnxSpeechToText
from edgeserve.engines.tts.onnx import OnnxTextToSpeech
from edgeserve.messages import Pcm, SegmentEvent, SpeakRequest, TranscribeRequest
from edgeserve.models import catalog

Pulled = Callable[[str], Mapping[str, Path]]

pytestmark = pytest.mark.models

HEARD = {
    "Mr. Smith paid 25% of £1,200 to Dr. Jones of 12 Main St.": (
        r"(mr\.?|mister) smith",
        r"25 ?%|25 percent|twenty[- ]five percent",
        r"1,?200|twelve hundred|one thousand two hundred",
        r"(dr\.?|doctor) jones",
        r"(12|twelve) main (st|street)",
    ),
    "On May 5th, 2023 the ticket costs $3.50 in the U.S.": (
        r"may (5|fifth)",
        r"2023|twenty twenty three",
        r"\$3\.50|three dollars and fifty cents|3 dollars and 50 cents",
        r"\bu\.?s\b",
    ),
    "The train leaves at 10:30 a.m. and costs $12.": (r"10[:.]?30|ten thirty", r"a\.?m", r"\$12|(12|twelve) dollars"),
}
ALL_AT_ONCE = "It costs $3.50 on May 5th, 2024 at 10:30 a.m."
"""The smallest Whisper loses the date when the Piper voice says it."""
HEARD_OF_ALL = (
    r"costs",
    r"\$3\.50|three dollars and fifty cents|3 dollars and 50 cents",
    r"may (5|fifth)",
    r"2024|twenty twenty four",
    r"10[:.]?30|ten thirty",
    r"a\.?m",
)
PIPER = "piper-en-us-joe-medium"


CASES = [
    ("hibari", ALL_AT_ONCE, HEARD_OF_ALL),
    *(("hibari", text, words) for text, words in HEARD.items()),
    *(pytest.param(PIPER, text, words, marks=needs_phonemizer) for text, words in HEARD.items()),
]


@pytest.fixture(scope="module")
def voices(pulled: Pulled, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], OnnxTextToSpeech]]:
    """Voices by name, each opened once."""
    opened: dict[str, OnnxTextToSpeech] = {}

    def voice(name: str) -> OnnxTextToSpeech:
        if name not in opened:
            files = pulled(name)
            files = noiseless(files, tmp_path_factory.mktemp("voice")) if name == PIPER else files
            options = catalog.find(name).options
            opened[name] = OnnxTextToSpeech(ModelSpec("tts", name, "", files, threads=2, options=options))
            opened[name].heat()
        return opened[name]

    yield voice
    for one in opened.values():
        one.close()


@pytest.fixture(scope="module")
def ear(pulled: Pulled) -> Iterator[OnnxSpeechToText]:
    ear = OnnxSpeechToText(ModelSpec("asr", "whisper-tiny.en", "", pulled("whisper-tiny.en"), threads=2))
    ear.heat()
    yield ear
    ear.close()


@pytest.mark.parametrize(("name", "text", "words"), CASES)
def test_it_is_heard(
    voices: Callable[[str], OnnxTextToSpeech], ear: OnnxSpeechToText, name: str, text: str, words: tuple[str, ...]
) -> None:
    said = list(voices(name).speak(SpeakRequest(text), threading.Event()))
    pcm = b"".join(event.pcm for event in said)
    samples = at_16k(numpy.frombuffer(pcm, "<i2").astype(numpy.float32) / 32_768, said[0].sample_rate)
    events = ear.transcribe(TranscribeRequest(Pcm(samples.tobytes())), threading.Event())
    heard = " ".join(event.text for event in events if isinstance(event, SegmentEvent)).lower()
    assert [pattern for pattern in words if not re.search(pattern, heard)] == [], heard
